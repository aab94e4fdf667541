"""The engines in Verilog, from their C++, by open tools."""
