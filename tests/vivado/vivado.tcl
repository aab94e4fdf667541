# A stand-in for Vivado's commands, for plain tclsh: records a block design and rejects what Vivado
# would reject. It knows the IP of overlay/design.toml (ip.tcl) and the commands of overlay/tcl, no more:
# anything else is an error, as an unknown command or option is.
#
# tclsh vivado.tcl -mode batch [-nojournal] -source FILE [-tclargs ARGUMENT...], or -version.
# Environment: STANDIN_RECORD (file for the design, as JSON), STANDIN_VERSION, STANDIN_BOARDS (installed
# board parts), STANDIN_PS (version of zynq_ultra_ps_e), STANDIN_WNS, STANDIN_WHS, STANDIN_UNROUTED,
# STANDIN_UNCONSTRAINED, STANDIN_RUN (what happens to the implementation: "fail").

namespace eval standin {
  variable project {board_part "" part "" ip_repo_paths {}}
  variable catalog {}     ;# VLNVs that can be instantiated
  variable cores {}       ;# VLNV of an HLS core -> its interfaces
  variable cells {}       ;# name -> {vlnv parameters preset}
  variable nets {}        ;# name -> pins, the driver first
  variable links {}       ;# list of {master slave}
  variable assigned {}    ;# {space segment} -> {offset range}
  variable excluded {}    ;# {space segment} -> 1
  variable state {bd "" wrapper "" top "" launched 0 opened 0}
}

# ---- helpers ----

proc standin::setting {name default} {
  return [expr {[info exists ::env(STANDIN_$name)] ? $::env(STANDIN_$name) : $default}]
}

# Options and positional arguments; `spec` maps an option to 1 if it takes a value.
proc standin::options {command arguments spec} {
  set found {} ; set rest {}
  while {[llength $arguments]} {
    set arguments [lassign $arguments word]
    if {[string match {-[a-z]*} $word]} {
      if {![dict exists $spec $word]} {
        error "ERROR: \[Common 17-170\] Unknown option '$word' of $command"
      }
      if {[dict get $spec $word]} {
        if {![llength $arguments]} { error "ERROR: option $word of $command wants a value" }
        set arguments [lassign $arguments value]
        dict set found $word $value
      } else {
        dict set found $word 1
      }
    } else {
      lappend rest $word
    }
  }
  return [list $found $rest]
}

proc standin::bare {path} { return [string trimleft $path /] }

proc standin::cell_of {path} { return [lindex [split [bare $path] /] 0] }

proc standin::leaf_of {path} { return [join [lrange [split [bare $path] /] 1 end] /] }

proc standin::need {what found pattern} {
  if {$found eq ""} { error "ERROR: \[BD 5-106\] no $what matches '$pattern'" }
  return $found
}

proc standin::description {cell} {
  variable cells
  return [describe [dict get $cells $cell vlnv] [dict get $cells $cell parameters] [dict get $cells $cell preset]]
}

proc standin::pin {path} {
  set described [description [cell_of $path]]
  return [dict get $described pins [leaf_of $path]]
}

proc standin::interface {path} {
  return [dict get [description [cell_of $path]] interfaces [leaf_of $path]]
}

proc standin::net_of {path} {
  variable nets
  dict for {name pins} $nets {
    if {[bare $path] in $pins} { return $name }
  }
  return ""
}

proc standin::partner {path} {
  variable links
  foreach link $links {
    lassign $link master slave
    if {$master eq [bare $path]} { return $slave }
    if {$slave eq [bare $path]} { return $master }
  }
  return ""
}

proc standin::listed {kind arguments} {
  lassign [options get_bd_$kind $arguments {-quiet 0}] found patterns
  variable cells
  set result {}
  foreach pattern [concat {*}$patterns] {
    set matches {}
    foreach cell [dict keys $cells] {
      if {$kind eq "cells"} {
        if {[string match [bare $pattern] $cell]} { lappend matches /$cell }
        continue
      }
      foreach name [dict keys [dict get [description $cell] $kind]] {
        if {[string match [bare $pattern] $cell/$name]} { lappend matches /$cell/$name }
      }
    }
    if {$matches eq "" && ![dict exists $found -quiet]} { need $kind $matches $pattern }
    lappend result {*}$matches
  }
  return $result
}

source [file join [file dirname [file normalize [info script]]] ip.tcl]

# ---- project and catalog ----

proc version {args} { standin::options version $args {-short 0} ; return [standin::setting VERSION 2023.2] }

proc create_project {args} {
  lassign [standin::options create_project $args {-part 1 -force 0}] found rest
  if {[llength $rest] != 2} { error "ERROR: create_project wants a name and a folder" }
  if {[dict get $found -part] ni $standin::parts} {
    error "ERROR: \[Coretcl 2-106\] Specified part could not be found: [dict get $found -part]"
  }
  dict set standin::project part [dict get $found -part]
  dict set standin::project folder [file normalize [lindex $rest 1]]
  dict set standin::project name [lindex $rest 0]
  file mkdir [lindex $rest 1]
}

proc current_project {} {
  if {![dict exists $standin::project name]} { error "ERROR: \[Common 17-53\] no open project" }
  return project:
}

proc get_board_parts {args} {
  lassign [standin::options get_board_parts $args {-quiet 0}] found patterns
  set result {}
  foreach board [standin::setting BOARDS {}] {
    foreach pattern $patterns {
      if {[string match $pattern $board]} { lappend result $board }
    }
  }
  return $result
}

proc update_ip_catalog {} {
  set standin::catalog $standin::library
  foreach folder [dict get $standin::project ip_repo_paths] {
    set file [file join $folder component.xml]
    if {![file exists $file]} { error "ERROR: no IP in repository $folder" }
    set channel [open $file] ; set text [read $channel] ; close $channel
    foreach field {vendor library name version} {
      if {![regexp "<spirit:$field>(.*?)</spirit:$field>" $text -> part($field)]} {
        error "ERROR: $file has no $field"
      }
    }
    set vlnv $part(vendor):$part(library):$part(name):$part(version)
    lappend standin::catalog $vlnv
    dict set standin::cores $vlnv [standin::core_interfaces $text]
  }
}

# The streams of an HLS core: name -> {mode width}.
proc standin::core_interfaces {text} {
  set result {}
  foreach part [lrange [split [string map {<spirit:busInterface> \x01} $text] \x01] 1 end] {
    if {[regexp {<spirit:name>(\w+)</spirit:name>\s*<spirit:(master|slave)/>} $part -> name mode]
        && [regexp {"TDATA_NUM_BYTES">(\d+)<} $part -> bytes]} {
      dict set result $name [list [string totitle $mode] [expr {8 * $bytes}]]
    }
  }
  return $result
}

proc get_ipdefs {args} {
  lassign [standin::options get_ipdefs $args {-quiet 0 -all 0}] found patterns
  set result {}
  foreach vlnv $standin::catalog {
    foreach pattern $patterns {
      if {[string match $pattern $vlnv]} { lappend result $vlnv }
    }
  }
  return $result
}

# ---- properties ----

proc set_property {args} {
  lassign [standin::options set_property $args {-dict 1}] found rest
  if {[dict exists $found -dict]} {
    set pairs [dict get $found -dict]
    set objects [lindex $rest 0]
  } else {
    if {[llength $rest] != 3} { error "ERROR: \[Common 17-165\] set_property wants name, value, object" }
    set pairs [lrange $rest 0 1]
    set objects [lindex $rest 2]
  }
  if {$objects eq ""} { error "ERROR: \[Common 17-55\] 'set_property' expects at least one object." }
  foreach object $objects {
    foreach {name value} $pairs { standin::set_one $object $name $value }
  }
}

proc standin::set_one {object name value} {
  variable project
  variable cells
  variable state
  if {$object eq "project:"} {
    if {$name eq "board_part"} {
      if {$value ni [setting BOARDS {}]} { error "ERROR: \[Board 49-71\] unknown board part $value" }
    } elseif {$name ne "ip_repo_paths"} {
      error "ERROR: \[Common 17-54\] project has no property '$name'"
    }
    dict set project $name $value
    return
  }
  if {$object eq "fileset:"} {
    if {$name ne "top"} { error "ERROR: \[Common 17-54\] fileset has no property '$name'" }
    dict set state top $value
    return
  }
  set cell [bare $object]
  if {![dict exists $cells $cell]} { error "ERROR: '$object' takes no property" }
  if {![string match CONFIG.* $name]} { error "ERROR: \[Common 17-54\] cell has no property '$name'" }
  set parameter [string range $name 7 end]
  set vlnv [dict get $cells $cell vlnv]
  set allowed [allowed_values $vlnv $parameter]
  if {$allowed eq ""} { error "ERROR: \[BD 41-1276\] $vlnv has no parameter '$parameter'" }
  if {![value_allowed $allowed $value]} {
    error "ERROR: \[IP_Flow 19-3461\] value '$value' of $parameter of $cell is not allowed; $allowed"
  }
  dict set cells $cell parameters $parameter $value
}

proc get_property {name object} {
  if {$object eq ""} { error "ERROR: \[Common 17-55\] 'get_property' expects at least one object." }
  if {$object eq "project:" && $name eq "board_part"} { return [dict get $standin::project board_part] }
  if {$object eq "run:impl_1"} {
    set failed [expr {[standin::setting RUN ""] eq "fail"}]
    switch -- $name {
      PROGRESS { return [expr {$failed ? "42%" : "100%"}] }
      STATUS { return [expr {$failed ? "place_design ERROR" : "write_bitstream Complete!"}] }
      DIRECTORY { return [standin::run_folder] }
    }
  }
  if {$object eq "clock:" && $name eq "PERIOD"} { return [standin::clock_period] }
  error "ERROR: \[Common 17-54\] '$object' has no property '$name'"
}

# ---- block design ----

proc create_bd_design {name} {
  current_project
  dict set standin::state bd $name
}

proc create_bd_cell {args} {
  lassign [standin::options create_bd_cell $args {-type 1 -vlnv 1}] found rest
  if {[dict get $standin::state bd] eq ""} { error "ERROR: \[BD 5-100\] no open block design" }
  set vlnv [dict get $found -vlnv]
  if {$vlnv ni $standin::catalog} { error "ERROR: \[BD 41-71\] $vlnv is not in the IP catalog" }
  if {[dict get $found -type] ne "ip" || [llength $rest] != 1} { error "ERROR: create_bd_cell: arguments" }
  if {[dict exists $standin::cells $rest]} { error "ERROR: \[BD 5-215\] there is a cell $rest" }
  dict set standin::cells $rest [dict create vlnv $vlnv parameters [standin::defaults $vlnv] preset 0]
  return /$rest
}

proc apply_bd_automation {args} {
  lassign [standin::options apply_bd_automation $args {-rule 1 -config 1}] found rest
  set cell [standin::bare [lindex $rest 0]]
  if {![dict exists $standin::cells $cell]} { error "ERROR: no cell '$rest'" }
  set kind [lindex [split [dict get $standin::cells $cell vlnv] :] 2]
  if {[dict get $found -rule] ne "xilinx.com:bd_rule:$kind"} {
    error "ERROR: rule [dict get $found -rule] does not apply to $kind"
  }
  dict for {key value} [dict get $found -config] {
    if {$key ni {apply_board_preset make_external Master Disable Slave}} { error "ERROR: no option $key" }
  }
  set preset [dict get $found -config apply_board_preset]
  if {$preset && [dict get $standin::project board_part] eq ""} {
    error "ERROR: a preset needs a board part"
  }
  dict set standin::cells $cell preset $preset
  if {[dict exists $found -config make_external]} {
    dict set standin::cells $cell external [dict get $found -config make_external]
  }
}

proc get_bd_cells {args} { return [standin::listed cells $args] }
proc get_bd_pins {args} { return [standin::listed pins $args] }
proc get_bd_intf_pins {args} { return [standin::listed interfaces $args] }
proc get_bd_addr_spaces {args} { return [standin::listed spaces $args] }
proc get_bd_addr_segs {args} { return [standin::listed segments $args] }

proc connect_bd_intf_net {args} {
  lassign [standin::options connect_bd_intf_net $args {-intf_net 1}] found rest
  if {[llength $rest] != 2 || "" in $rest} { error "ERROR: \[BD 5-7\] two interface pins are wanted" }
  foreach path $rest {
    if {[standin::partner $path] ne ""} { error "ERROR: \[BD 41-1357\] $path is connected already" }
    lappend ends [standin::interface $path]
  }
  lassign $ends first second
  if {[dict get $first kind] ne [dict get $second kind]} {
    error "ERROR: \[BD 41-171\] [lindex $rest 0] is [dict get $first kind], [lindex $rest 1] is [dict get $second kind]"
  }
  if {[dict get $first mode] eq [dict get $second mode]} {
    error "ERROR: \[BD 41-173\] both ends of $rest are of mode [dict get $first mode]"
  }
  if {[dict get $first mode] eq "Slave"} { set rest [lreverse $rest] }
  lappend standin::links [lmap path $rest {standin::bare $path}]
}

proc connect_bd_net {args} {
  lassign [standin::options connect_bd_net $args {-net 1}] found rest
  set pins [lmap path [concat {*}$rest] {standin::bare $path}]
  if {[llength $pins] < 2 || "" in $rest} { error "ERROR: \[BD 5-4\] at least two pins are wanted" }
  set name [expr {[dict exists $found -net] ? [dict get $found -net] : "[string map {/ _} [lindex $pins 0]]"}]
  set all [expr {[dict exists $standin::nets $name] ? [dict get $standin::nets $name] : {}}]
  foreach pin $pins {
    set other [standin::net_of $pin]
    if {$other ne "" && $other ne $name} { error "ERROR: \[BD 41-1306\] $pin is on net $other already" }
    if {$pin ni $all} { lappend all $pin }
  }
  set drivers [lmap pin $all {expr {[dict get [standin::pin $pin] dir] eq "O" ? $pin : [continue]}}]
  if {[llength $drivers] > 1} { error "ERROR: \[BD 41-1731\] net $name has two drivers: $drivers" }
  if {[llength $drivers] == 0} { error "ERROR: \[BD 41-1732\] net $name has no driver: all of $all are inputs" }
  set width [dict get [standin::pin $drivers] width]
  foreach pin $all {
    set sink [standin::pin $pin]
    if {[dict get $sink width] ni [list $width any]} {
      error "ERROR: \[BD 41-235\] width mismatch on net $name: $drivers has $width, $pin has [dict get $sink width]"
    }
    if {[dict get $sink type] eq "clk" && [dict get [standin::pin $drivers] type] ne "clk"} {
      error "ERROR: \[BD 41-758\] clock pin $pin is driven by $drivers, which is no clock"
    }
    if {[dict get [standin::pin $drivers] type] eq "clk" && [dict get $sink type] ne "clk"} {
      error "ERROR: \[BD 41-759\] $pin is no clock pin, and driven by clock $drivers"
    }
    if {[dict get [standin::pin $drivers] type] eq "intr" && [dict get $sink type] ni {intr data}} {
      error "ERROR: \[BD 41-760\] interrupt $drivers drives $pin of type [dict get $sink type]"
    }
  }
  dict set standin::nets $name [concat $drivers [lsearch -all -inline -not -exact $all $drivers]]
}

# ---- addresses ----

# The slave interfaces that a master interface reaches, through interconnects.
proc standin::reached {master} {
  variable cells
  set slave [partner $master]
  if {$slave eq ""} { return {} }
  set cell [cell_of $slave]
  if {![string match *:smartconnect:* [dict get $cells $cell vlnv]]} { return [list $slave] }
  set result {}
  dict for {name entry} [dict get [description $cell] interfaces] {
    if {[dict get $entry mode] eq "Master"} { lappend result {*}[reached $cell/$name] }
  }
  return $result
}

# Segments that an address space can reach: segment -> slave interface.
proc standin::reachable {space} {
  set result {}
  set described [description [cell_of $space]]
  foreach master [dict get $described spaces [leaf_of $space]] {
    foreach slave [reached [cell_of $space]/$master] {
      dict for {segment entry} [dict get [description [cell_of $slave]] segments] {
        if {[dict get $entry interface] eq [leaf_of $slave]} {
          dict set result [cell_of $slave]/$segment [list $slave $master]
        }
      }
    }
  }
  return $result
}

proc standin::check_segment {command space segment} {
  if {$space eq "" || $segment eq ""} { error "ERROR: $command wants a space and a segment" }
  if {![dict exists [reachable $space] $segment]} {
    error "ERROR: \[BD 41-1075\] no path from address space $space to segment $segment"
  }
}

proc assign_bd_address {args} {
  lassign [standin::options assign_bd_address $args \
    {-offset 1 -range 1 -target_address_space 1 -force 0}] found rest
  set space [standin::bare [dict get $found -target_address_space]]
  set segment [standin::bare [lindex $rest 0]]
  standin::check_segment assign_bd_address $space $segment
  set master [lindex [dict get [standin::reachable $space] $segment] 1]
  set entry [dict get [standin::description [standin::cell_of $segment]] segments [standin::leaf_of $segment]]
  set offset [expr {[dict exists $found -offset] ? [dict get $found -offset] : [dict get $entry offset]}]
  set range [expr {[dict exists $found -range] ? [dict get $found -range] : [dict get $entry range]}]
  if {$range & ($range - 1) || $range < 4096 || $offset % $range} {
    error "ERROR: \[BD 41-70\] $segment: offset $offset and range $range are not aligned"
  }
  set apertures [dict get [standin::description [standin::cell_of $space]] apertures $master]
  set inside 0
  foreach aperture $apertures {
    lassign $aperture low high
    if {$offset >= $low && $offset + $range - 1 <= $high} { set inside 1 }
  }
  if {!$inside} { error "ERROR: \[BD 41-1051\] $segment at $offset is outside of what $space/$master reaches" }
  dict for {key window} $standin::assigned {
    lassign $window other_offset other_range
    if {[lindex $key 0] eq $space && [lindex $key 1] ne $segment
        && $offset < $other_offset + $other_range && $other_offset < $offset + $range} {
      error "ERROR: \[BD 41-971\] $segment overlaps [lindex $key 1] in $space"
    }
  }
  dict set standin::assigned [list $space $segment] [list $offset $range]
}

proc exclude_bd_addr_seg {args} {
  lassign [standin::options exclude_bd_addr_seg $args {-target_address_space 1}] found rest
  set space [standin::bare [dict get $found -target_address_space]]
  set segment [standin::bare [lindex $rest 0]]
  standin::check_segment exclude_bd_addr_seg $space $segment
  dict set standin::excluded [list $space $segment] 1
}

# ---- validation ----

# The net that clocks an interface.
proc standin::clock_of {path} {
  set clock [dict get [interface $path] clock]
  return [net_of [cell_of $path]/$clock]
}

proc validate_bd_design {} {
  set problems {}
  foreach cell [dict keys $standin::cells] {
    set described [standin::description $cell]
    dict for {name entry} [dict get $described pins] {
      if {[dict get $entry dir] eq "I" && [dict get $entry required] && [standin::net_of $cell/$name] eq ""} {
        lappend problems "\[BD 41-758\] input pin of type [dict get $entry type] not connected: $cell/$name"
      }
    }
    dict for {name entry} [dict get $described interfaces] {
      if {[standin::partner $cell/$name] eq "" && [dict get $entry required]} {
        lappend problems "\[BD 41-759\] interface not connected: $cell/$name"
      }
    }
    foreach space [dict keys [dict get $described spaces]] {
      foreach segment [dict keys [standin::reachable $cell/$space]] {
        set key [list $cell/$space $segment]
        if {![dict exists $standin::assigned $key] && ![dict exists $standin::excluded $key]} {
          lappend problems "\[BD 41-1356\] segment $segment is not mapped in $cell/$space"
        }
      }
    }
    foreach problem [dict get $described problems] { lappend problems "$cell: $problem" }
  }
  foreach link $standin::links {
    lassign $link master slave
    if {[standin::clock_of $master] ne [standin::clock_of $slave]} {
      lappend problems "\[BD 41-237\] clock domains of $master ([standin::clock_of $master]) and $slave ([standin::clock_of $slave]) differ"
    }
    set widths [lmap end $link {dict get [standin::interface $end] width}]
    if {"any" ni $widths && [lindex $widths 0] != [lindex $widths 1]} {
      lappend problems "\[BD 41-237\] width mismatch: $master has [lindex $widths 0] bit, $slave has [lindex $widths 1]"
    }
  }
  if {[llength $problems]} { error "ERROR: validation failed:\n[join $problems \n]" }
}

proc save_bd_design {} {
  set folder [file join [dict get $standin::project folder] [dict get $standin::project name].gen \
    sources_1 bd [dict get $standin::state bd] hw_handoff]
  file mkdir $folder
  standin::write [file join $folder [dict get $standin::state bd].hwh] "<EDKSYSTEM/>\n"
  if {[standin::setting RECORD ""] ne ""} { standin::write [standin::setting RECORD ""] [standin::record] }
}

proc standin::write {file text} {
  set channel [open $file w] ; puts -nonewline $channel $text ; close $channel
}

# The design as JSON.
proc standin::record {} {
  variable cells
  variable nets
  variable links
  variable assigned
  variable excluded
  set string [list string map {\\ \\\\ \" \\\"}]
  set quote {word {return "\"[string map {\\ \\\\ \" \\\"} $word]\""}}
  set items {}
  dict for {name cell} $cells {
    set parameters {}
    dict for {key value} [dict get $cell parameters] {
      lappend parameters "[apply $quote $key]: [apply $quote $value]"
    }
    lappend items "[apply $quote $name]: {\"vlnv\": [apply $quote [dict get $cell vlnv]], \"preset\": [dict get $cell preset], \"parameters\": {[join $parameters {, }]}}"
  }
  set text "{\"cells\": {[join $items {, }]},\n\"links\": \["
  append text [join [lmap link $links {string cat \[ [join [lmap end $link {apply $quote $end}] ,] \]}] {, }]
  append text "\],\n\"nets\": {"
  set items {}
  dict for {name pins} $nets {
    lappend items "[apply $quote $name]: \[[join [lmap pin $pins {apply $quote $pin}] ,]\]"
  }
  append text "[join $items {, }]},\n\"assigned\": \["
  set items {}
  dict for {key window} $assigned {
    lappend items "\[[apply $quote [lindex $key 0]], [apply $quote [lindex $key 1]], [expr {[lindex $window 0]}], [expr {[lindex $window 1]}]\]"
  }
  append text "[join $items {, }]\],\n\"excluded\": \["
  append text [join [lmap key [dict keys $excluded] {string cat \[ [join [lmap end $key {apply $quote $end}] ,] \]}] {, }]
  return "$text\]}\n"
}

# ---- implementation ----

proc get_files {pattern} {
  if {$pattern ne "[dict get $standin::state bd].bd"} { error "ERROR: no file $pattern" }
  return bd:
}

proc make_wrapper {args} {
  lassign [standin::options make_wrapper $args {-files 1 -top 0}] found rest
  set name [dict get $standin::state bd]_wrapper
  dict set standin::state wrapper $name
  return $name.v
}

proc add_files {args} {
  lassign [standin::options add_files $args {-norecurse 0}] found rest
  if {$rest ne "[dict get $standin::state wrapper].v"} { error "ERROR: no file $rest" }
}

proc current_fileset {} { return fileset: }
proc update_compile_order {args} { standin::options update_compile_order $args {-fileset 1} }

proc launch_runs {args} {
  lassign [standin::options launch_runs $args {-to_step 1 -jobs 1}] found rest
  if {$rest ne "impl_1"} { error "ERROR: no run $rest" }
  if {[dict get $standin::state top] ne [dict get $standin::state wrapper]} { error "ERROR: no top module" }
  dict set standin::state launched 1
}

proc wait_on_runs {run} {
  if {![dict get $standin::state launched]} { error "ERROR: run $run was not launched" }
  file mkdir [standin::run_folder]
  if {[standin::setting RUN ""] ne "fail"} {
    standin::write [file join [standin::run_folder] [dict get $standin::state top].bit] "a bitstream\n"
  }
}

proc get_runs {name} { return run:$name }
proc get_clocks {} { return clock: }

proc standin::run_folder {} {
  variable project
  return [file join [dict get $project folder] [dict get $project name].runs impl_1]
}

proc open_run {run} { dict set standin::state opened 1 }

proc standin::clock_period {} {
  variable cells
  dict for {name cell} $cells {
    foreach parameter {PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ PCW_FPGA0_PERIPHERAL_FREQMHZ} {
      if {[dict exists $cell parameters $parameter]} {
        return [format %.3f [expr {1000.0 / [dict get $cell parameters $parameter]}]]
      }
    }
  }
  error "ERROR: no clock"
}

proc standin::report {command arguments spec text} {
  lassign [options $command $arguments $spec] found rest
  if {![dict get $standin::state opened]} { error "ERROR: no open run" }
  write [dict get $found -file] $text
}

proc report_timing_summary {args} {
  set wns [standin::setting WNS 0.123] ; set whs [standin::setting WHS 0.010]
  set loose [standin::setting UNCONSTRAINED 0]
  set head "    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)  THS Failing Endpoints  THS Total Endpoints     WPWS(ns)     TPWS(ns)  TPWS Failing Endpoints  TPWS Total Endpoints  "
  set rule [regsub -all {[^ ]} [regsub -all {\(ns\)|(Failing|Total) Endpoints} $head {-----}] -]
  set tns [expr {$wns < 0 ? 10 * $wns : 0.0}] ; set ths [expr {$whs < 0 ? 10 * $whs : 0.0}]
  set row [format {    %7.3f      %7.3f                      %d                53045      %7.3f      %7.3f                      %d                53045        1.234        0.000                       0                 19000} \
    $wns $tns [expr {$wns < 0}] $whs $ths [expr {$whs < 0}]]
  set checks {}
  foreach {check count} [list no_clock 0 constant_clock 0 pulse_width_clock 0 unconstrained_internal_endpoints $loose \
      no_input_delay 0 no_output_delay 0 multiple_clock 0 generated_clocks 0 loops 0 partial_input_delay 0 \
      partial_output_delay 0 latch_loops 0] {
    lappend checks "[expr {[llength $checks] + 1}]. checking $check ($count)"
  }
  standin::report report_timing_summary $args {-delay_type 1 -report_unconstrained 0 -file 1} \
    "check_timing report\n\nTable of Contents\n-----------------\n[join $checks \n]\n\n| Design Timing Summary\n| ---------------------\n\n$head\n$rule\n$row\n\n\n"
}

proc report_route_status {args} {
  set lost [standin::setting UNROUTED 0]
  standin::report report_route_status $args {-file 1} "Design Route Status
                                               :      # nets :
   ------------------------------------------- : ----------- :
   # of logical nets.......................... :       64000 :
       # of nets not needing routing.......... :       24000 :
       # of routable nets..................... :       40000 :
           # of fully routed nets............. :       [expr {40000 - $lost}] :
       # of nets with routing errors.......... :           $lost :
   ------------------------------------------- : ----------- :
"
}

proc report_utilization {args} {
  set ultra [expr {![string match xc7* [dict get $standin::project part]]}]
  set prefix [expr {$ultra ? "CLB" : "Slice"}]
  set text "+----------------------------+-------+-------+------------+-----------+-------+
|          Site Type         |  Used | Fixed | Prohibited | Available | Util% |
+----------------------------+-------+-------+------------+-----------+-------+
| $prefix LUTs                   | 12345 |     0 |          0 |     70560 | 17.50 |
|   LUT as Logic             | 11000 |     0 |          0 |     70560 | 15.59 |
| $prefix Registers              | 23456 |     0 |          0 |    141120 | 16.62 |
| Block RAM Tile             |  40.5 |     0 |          0 |       216 | 18.75 |
"
  if {$ultra} { append text "| URAM                       |     0 |     0 |          0 |        64 |  0.00 |\n" }
  append text "| DSPs                       |     0 |     0 |          0 |       360 |  0.00 |\n"
  standin::report report_utilization $args {-file 1} $text
}

# ---- the executable ----

proc standin::main {arguments} {
  if {$arguments eq "-version"} {
    puts "vivado v[setting VERSION 2023.2] (64-bit)\nTool Version Limit: 2099.10"
    return
  }
  set rest [lsearch -exact $arguments -tclargs]
  set ::argv [expr {$rest < 0 ? {} : [lrange $arguments $rest+1 end]}]
  set ::argc [llength $::argv]
  lassign [options vivado [lrange $arguments 0 [expr {$rest < 0 ? "end" : $rest - 1}]] \
    {-mode 1 -nojournal 0 -source 1}] found
  uplevel #0 [list source [dict get $found -source]]
}

if {[file normalize $::argv0] eq [file normalize [info script]]} {
  if {[catch {standin::main $::argv} message]} {
    puts [expr {[string match ERROR* $message] ? $message : "ERROR: $message"}]
    exit 1
  }
}
