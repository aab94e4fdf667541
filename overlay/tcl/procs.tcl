# What the block design needs beyond Vivado's own commands.

# The IP with the version the design was written for, else the newest of that name.
proc in_catalog {vlnv} {
  if {[get_ipdefs -quiet $vlnv] ne ""} {
    return $vlnv
  }
  set name [join [lrange [split $vlnv :] 0 2] :]
  set found [lindex [lsort -dictionary [get_ipdefs -quiet "$name:*"]] end]
  if {$found eq ""} {
    error "IP $vlnv is not in the catalog, nor is another version of it"
  }
  puts "NOTE: $vlnv is not in the catalog; $found takes its place"
  return $found
}

# The newest installed version of a board part; empty where Vivado has no files for the board.
proc installed_board_part {name} {
  return [lindex [lsort -dictionary [get_board_parts -quiet "$name:*"]] end]
}

# The board's presets for the processor where Vivado knows the board, and its fixed pins.
proc preset_processor {cell rule {external ""}} {
  set preset [expr {[get_property board_part [current_project]] ne ""}]
  set config [list apply_board_preset $preset]
  if {$external ne ""} {
    lappend config make_external $external Master Disable Slave Disable
  }
  apply_bd_automation -rule $rule -config $config [get_bd_cells $cell]
}

# Let a master's address space reach the processor's windows that match, and none of its others.
proc reach_memory {space windows} {
  set reached 0
  foreach segment [get_bd_addr_segs -quiet [file dirname $windows]/*] {
    if {[string match "*/[file tail $windows]" $segment]} {
      assign_bd_address -target_address_space [get_bd_addr_spaces $space] $segment -force
      incr reached
    } else {
      exclude_bd_addr_seg -target_address_space [get_bd_addr_spaces $space] $segment
    }
  }
  if {!$reached} {
    error "$space reaches no memory: the processor has no window $windows"
  }
}
