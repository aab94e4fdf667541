// The vendor's integers as hls4ml ships them refuse __SYNTHESIS__; the check has it set.
#pragma once

#pragma push_macro("__SYNTHESIS__")
#undef __SYNTHESIS__
#include_next <ap_int.h>
#pragma pop_macro("__SYNTHESIS__")
