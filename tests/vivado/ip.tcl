# The IP of overlay/design.toml as Vivado's catalog has it: parameters, pins and interfaces, which depend
# on the parameters. Sources: AMD PG021 (AXI DMA), PG247 (SmartConnect), PG164 (Processor System Reset),
# PG099 (AXI Interrupt Controller), PG201 (Zynq UltraScale+ PS), PG082 (Zynq-7000 PS).

namespace eval standin {
  variable parts {xczu7ev-ffvc1156-2-e xck26-sfvc784-2LV-c xczu3eg-sfvc784-2-e xc7z020clg400-1}
  variable library [list \
    xilinx.com:ip:zynq_ultra_ps_e:[setting PS 3.5] xilinx.com:ip:processing_system7:5.5 \
    xilinx.com:ip:smartconnect:1.0 xilinx.com:ip:proc_sys_reset:5.0 xilinx.com:ip:util_vector_logic:2.0 \
    xilinx.com:ip:xlconcat:2.1 xilinx.com:ip:axi_intc:4.1 xilinx.com:ip:axi_dma:7.1]
  # Parameters: name -> {default kind values...}; kinds: of (one of), from (range), any.
  variable parameters
  array set parameters {
    smartconnect {NUM_SI {1 from 1 16} NUM_MI {1 from 1 16} NUM_CLKS {1 from 1 4}}
    proc_sys_reset {}
    util_vector_logic {C_OPERATION {and of and or xor not} C_SIZE {8 from 1 1024}}
    xlconcat {NUM_PORTS {2 from 1 128}}
    axi_intc {C_IRQ_CONNECTION {0 of 0 1}}
    axi_dma {
      c_include_sg {1 of 0 1} c_micro_dma {0 of 0 1} c_sg_length_width {14 from 8 26}
      c_addr_width {32 from 32 64}
      c_include_mm2s {1 of 0 1} c_include_s2mm {1 of 0 1} c_include_mm2s_dre {0 of 0 1}
      c_include_s2mm_dre {0 of 0 1}
      c_m_axi_mm2s_data_width {32 of 32 64 128 256 512 1024}
      c_m_axi_s2mm_data_width {32 of 32 64 128 256 512 1024}
      c_m_axis_mm2s_tdata_width {32 of 8 16 32 64 128 256 512 1024}
      c_s_axis_s2mm_tdata_width {32 of 8 16 32 64 128 256 512 1024}
      c_mm2s_burst_size {16 of 2 4 8 16 32 64 128 256} c_s2mm_burst_size {16 of 2 4 8 16 32 64 128 256}
    }
    zynq_ultra_ps_e {
      PSU__PSS_REF_CLK__FREQMHZ {33.333 from 27 60} PSU__FPGA_PL0_ENABLE {1 of 0 1}
      PSU__CRL_APB__PL0_REF_CTRL__SRCSEL {IOPLL of IOPLL RPLL DPLL}
      PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ {100 from 0.001 533}
      PSU__USE__FABRIC__RST {1 of 0 1} PSU__NUM_FABRIC_RESETS {1 from 1 4} PSU__USE__IRQ0 {1 of 0 1}
      PSU__USE__M_AXI_GP0 {1 of 0 1} PSU__USE__M_AXI_GP1 {1 of 0 1} PSU__USE__M_AXI_GP2 {1 of 0 1}
      PSU__MAXIGP0__DATA_WIDTH {128 of 32 64 128}
      PSU__USE__S_AXI_GP2 {0 of 0 1} PSU__USE__S_AXI_GP3 {0 of 0 1}
      PSU__SAXIGP2__DATA_WIDTH {128 of 32 64 128} PSU__SAXIGP3__DATA_WIDTH {128 of 32 64 128}
    }
    processing_system7 {
      PCW_CRYSTAL_PERIPHERAL_FREQMHZ {33.333333 from 30 60} PCW_EN_CLK0_PORT {1 of 0 1}
      PCW_FPGA0_PERIPHERAL_FREQMHZ {50 from 0.1 250} PCW_EN_RST0_PORT {1 of 0 1}
      PCW_USE_FABRIC_INTERRUPT {0 of 0 1} PCW_IRQ_F2P_INTR {0 of 0 1} PCW_USE_M_AXI_GP0 {1 of 0 1}
      PCW_USE_S_AXI_HP0 {0 of 0 1} PCW_USE_S_AXI_HP1 {0 of 0 1}
      PCW_S_AXI_HP0_DATA_WIDTH {64 of 32 64} PCW_S_AXI_HP1_DATA_WIDTH {64 of 32 64}
    }
  }
}

proc standin::kind_of {vlnv} { return [lindex [split $vlnv :] 2] }

proc standin::known_parameters {vlnv} {
  variable parameters
  set kind [kind_of $vlnv]
  return [expr {[info exists parameters($kind)] ? $parameters($kind) : {}}]
}

proc standin::defaults {vlnv} {
  set result {}
  foreach {name entry} [known_parameters $vlnv] { dict set result $name [lindex $entry 0] }
  return $result
}

proc standin::allowed_values {vlnv parameter} {
  set known [known_parameters $vlnv]
  return [expr {[dict exists $known $parameter] ? [lrange [dict get $known $parameter] 1 end] : ""}]
}

proc standin::value_allowed {allowed value} {
  set values [lassign $allowed kind]
  if {$kind eq "of"} { return [expr {$value in $values}] }
  return [expr {[string is double -strict $value] && $value >= [lindex $values 0] && $value <= [lindex $values 1]}]
}

# What a cell has, as dictionaries by name: pins {dir type width required}, interfaces {kind mode width
# clock required}, spaces (master interfaces), segments {interface offset range}, apertures (by master
# interface), problems (for validation).
proc standin::describe {vlnv values preset} {
  variable cores
  variable box
  set box {pins {} interfaces {} spaces {} segments {} apertures {} problems {}}
  if {[dict exists $cores $vlnv]} {
    describe_core [dict get $cores $vlnv]
  } else {
    describe_[kind_of $vlnv] $values $preset
  }
  return $box
}

proc standin::add_pin {name dir type {width 1} {required ""}} {
  variable box
  if {$required eq ""} { set required [expr {$dir eq "I" && $type in {clk rst}}] }
  dict set box pins $name [dict create dir $dir type $type width $width required $required]
}

proc standin::add_interface {name kind mode width clock {required 1}} {
  variable box
  dict set box interfaces $name [dict create kind $kind mode $mode width $width clock $clock required $required]
}

# The aperture is that of the last master.
proc standin::add_space {name masters aperture} {
  variable box
  dict set box spaces $name $masters
  dict set box apertures [lindex $masters end] $aperture
}

proc standin::add_segment {name interface {offset 0} {range 65536}} {
  variable box
  dict set box segments $name [dict create interface $interface offset $offset range $range]
}

proc standin::add_problem {text} {
  variable box
  dict lappend box problems $text
}

proc standin::describe_core {streams} {
  add_pin ap_clk I clk
  add_pin ap_rst_n I rst
  dict for {name entry} $streams {
    add_interface $name axis [lindex $entry 0] [lindex $entry 1] ap_clk
  }
}

proc standin::describe_smartconnect {values preset} {
  add_pin aclk I clk
  add_pin aresetn I rst
  for {set i 0} {$i < [dict get $values NUM_SI]} {incr i} {
    add_interface S[format %02d $i]_AXI aximm Slave any aclk
  }
  for {set i 0} {$i < [dict get $values NUM_MI]} {incr i} {
    add_interface M[format %02d $i]_AXI aximm Master any aclk
  }
}

proc standin::describe_proc_sys_reset {values preset} {
  add_pin slowest_sync_clk I clk
  add_pin ext_reset_in I rst
  add_pin aux_reset_in I rst 1 0
  add_pin mb_debug_sys_rst I rst 1 0
  add_pin dcm_locked I data 1 0
  add_pin mb_reset O rst
  foreach name {bus_struct_reset peripheral_reset interconnect_aresetn peripheral_aresetn} {
    add_pin $name O rst
  }
}

proc standin::describe_util_vector_logic {values preset} {
  set size [dict get $values C_SIZE]
  add_pin Op1 I data $size 1
  if {[dict get $values C_OPERATION] ne "not"} { add_pin Op2 I data $size 1 }
  add_pin Res O data $size
}

proc standin::describe_xlconcat {values preset} {
  set ports [dict get $values NUM_PORTS]
  for {set i 0} {$i < $ports} {incr i} { add_pin In$i I data 1 1 }
  add_pin dout O data $ports
}

proc standin::describe_axi_intc {values preset} {
  add_pin s_axi_aclk I clk
  add_pin s_axi_aresetn I rst
  add_pin intr I intr any 1
  if {[dict get $values C_IRQ_CONNECTION]} {
    add_pin irq O intr
  } else {
    add_interface interrupt interrupt Master any s_axi_aclk
  }
  add_interface s_axi aximm Slave any s_axi_aclk
  add_segment S_AXI/Reg s_axi
}

proc standin::describe_axi_dma {values preset} {
  if {[dict get $values c_include_sg]} {
    add_pin m_axi_sg_aclk I clk
    add_interface M_AXI_SG aximm Master 32 m_axi_sg_aclk
    add_space Data_SG M_AXI_SG {{0 0xFFFFFFFF}}
  }
  set top [expr {(1 << [dict get $values c_addr_width]) - 1}]
  add_pin s_axi_lite_aclk I clk
  add_pin axi_resetn I rst
  add_interface S_AXI_LITE aximm Slave any s_axi_lite_aclk
  add_segment S_AXI_LITE/Reg S_AXI_LITE
  foreach {channel axis mode part} {mm2s M_AXIS_MM2S Master m s2mm S_AXIS_S2MM Slave s} {
    if {![dict get $values c_include_$channel]} { continue }
    set up [string toupper $channel]
    set memory [dict get $values c_m_axi_${channel}_data_width]
    set stream [dict get $values c_${part}_axis_${channel}_tdata_width]
    add_pin m_axi_${channel}_aclk I clk
    add_pin ${channel}_prmry_reset_out_n O rst
    add_pin ${channel}_introut O intr
    add_interface M_AXI_$up aximm Master $memory m_axi_${channel}_aclk
    add_interface $axis axis $mode $stream m_axi_${channel}_aclk
    add_space Data_$up M_AXI_$up [list [list 0 $top]]
    if {$stream > $memory} { add_problem "stream of $channel is wider than its memory side" }
    if {[dict get $values c_${channel}_burst_size] * $memory / 8 > 4096} {
      add_problem "bursts of $channel cross 4 KiB"
    }
  }
}

proc standin::describe_zynq_ultra_ps_e {values preset} {
  if {[dict get $values PSU__FPGA_PL0_ENABLE]} { add_pin pl_clk0 O clk }
  if {[dict get $values PSU__USE__FABRIC__RST]} {
    for {set i 0} {$i < [dict get $values PSU__NUM_FABRIC_RESETS]} {incr i} { add_pin pl_resetn$i O rst }
  }
  if {[dict get $values PSU__USE__IRQ0]} { add_pin pl_ps_irq0 I intr 1 0 }
  set masters {}
  foreach {number name width apertures} {
    0 HPM0_FPD PSU__MAXIGP0__DATA_WIDTH {{0xA0000000 0xAFFFFFFF} {0x1000000000 0x17FFFFFFFF}}
    1 HPM1_FPD {} {{0xB0000000 0xBFFFFFFF}} 2 HPM0_LPD {} {{0x80000000 0x9FFFFFFF}}
  } {
    if {![dict get $values PSU__USE__M_AXI_GP$number]} { continue }
    set clock maxi[string tolower $name]_aclk
    add_pin $clock I clk
    add_interface M_AXI_$name aximm Master [expr {$width eq "" ? 32 : [dict get $values $width]}] $clock
    add_space Data [lappend masters M_AXI_$name] $apertures
  }
  foreach {number name} {2 HP0 3 HP1} {
    if {![dict get $values PSU__USE__S_AXI_GP$number]} { continue }
    set clock saxi[string tolower $name]_fpd_aclk
    add_pin $clock I clk
    add_interface S_AXI_${name}_FPD aximm Slave [dict get $values PSU__SAXIGP${number}__DATA_WIDTH] $clock
    set group SAXIGP$number/$name
    add_segment ${group}_DDR_LOW S_AXI_${name}_FPD 0 0x80000000
    # The part of the memory above 4 GB is there only if the board's preset says so.
    if {$preset} { add_segment ${group}_DDR_HIGH S_AXI_${name}_FPD 0x800000000 0x800000000 }
    add_segment ${group}_LPS_OCM S_AXI_${name}_FPD 0xFF000000 0x1000000
    add_segment ${group}_QSPI S_AXI_${name}_FPD 0xC0000000 0x20000000
  }
}

proc standin::describe_processing_system7 {values preset} {
  if {[dict get $values PCW_EN_CLK0_PORT]} { add_pin FCLK_CLK0 O clk }
  if {[dict get $values PCW_EN_RST0_PORT]} { add_pin FCLK_RESET0_N O rst }
  if {[dict get $values PCW_USE_FABRIC_INTERRUPT] && [dict get $values PCW_IRQ_F2P_INTR]} {
    add_pin IRQ_F2P I intr any 0
  }
  if {[dict get $values PCW_USE_M_AXI_GP0]} {
    add_pin M_AXI_GP0_ACLK I clk
    add_interface M_AXI_GP0 aximm Master 32 M_AXI_GP0_ACLK
    add_space Data M_AXI_GP0 {{0x40000000 0x7FFFFFFF}}
  }
  foreach name {HP0 HP1} {
    if {![dict get $values PCW_USE_S_AXI_$name]} { continue }
    add_pin S_AXI_${name}_ACLK I clk
    add_interface S_AXI_$name aximm Slave [dict get $values PCW_S_AXI_${name}_DATA_WIDTH] S_AXI_${name}_ACLK
    add_segment S_AXI_$name/${name}_DDR_LOWOCM S_AXI_$name 0 0x20000000
  }
  foreach cell [dict keys $standin::cells] {
    if {[string match *:processing_system7:* [dict get $standin::cells $cell vlnv]]
        && ![dict exists $standin::cells $cell external]} {
      add_problem "DDR and FIXED_IO are not external"
    }
  }
}
