# vivado -mode batch -source build.tcl -tclargs DESIGN.TCL PART BOARD_PART JOBS IP_FOLDER...
#
# Makes a project in the current folder, the block design in it, the bitstream and the reports that the
# gates read. Writes actdma.bit, actdma.hwh, *.rpt and facts.txt here.
source [file join [file dirname [file normalize [info script]]] procs.tcl]

set ip_folders [lassign $argv design part board_part jobs]
create_project actdma project -part $part -force
set found [expr {$board_part eq "" ? "" : [installed_board_part $board_part]}]
if {$found ne ""} {
  set_property board_part $found [current_project]
} else {
  puts "NOTE: no files for a board $board_part; the plain part $part is used, with the PS settings of boards.toml"
}
set_property ip_repo_paths $ip_folders [current_project]
update_ip_catalog

source $design
validate_bd_design
save_bd_design

add_files -norecurse [make_wrapper -files [get_files actdma.bd] -top]
set_property top actdma_wrapper [current_fileset]
update_compile_order -fileset sources_1
launch_runs impl_1 -to_step write_bitstream -jobs $jobs
wait_on_runs impl_1
if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
  error "implementation stopped: [get_property STATUS [get_runs impl_1]]; logs are in [get_property DIRECTORY [get_runs impl_1]]"
}

open_run impl_1
report_timing_summary -delay_type min_max -report_unconstrained -file timing.rpt
report_route_status -file route.rpt
report_utilization -file utilization.rpt
set facts [open facts.txt w]
puts $facts "vivado [version -short]"
puts $facts "board_part $found"
puts $facts "clock_period_ns [lindex [lsort -real [get_property PERIOD [get_clocks]]] 0]"
close $facts

file copy -force [file join [get_property DIRECTORY [get_runs impl_1]] actdma_wrapper.bit] actdma.bit
set handoff [glob -nocomplain project/actdma.{gen,srcs}/sources_1/bd/actdma/hw_handoff/actdma.hwh]
if {$handoff eq ""} {
  error "Vivado has written no actdma.hwh below [file normalize project]"
}
file copy -force [lindex $handoff 0] actdma.hwh
