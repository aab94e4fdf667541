// A stream between two processes: a token written in one cycle can be read from the next one on, a
// slot freed in one cycle written in the next, as csim's streams have it.
//
// With ACTDMA_CHECK streams stop at random and say what they take, for the equivalence check;
// CHANNEL is their number there, negative for those at the engine's ports, which do not stop.
`ifdef ACTDMA_CHECK
import "DPI-C" function int actdma_hold();
import "DPI-C" function void actdma_token(input int channel, input bit [2047:0] data);
`endif

module actdma_fifo #(
  parameter WIDTH = 1,
  parameter DEPTH = 2,
  parameter BLOCK_RAM = 0,
  parameter CHANNEL = 0
) (
  input  wire             clk,
  input  wire             rst,
  input  wire [WIDTH-1:0] in_data,
  input  wire             in_valid,
  output wire             in_ready,
  output wire [WIDTH-1:0] out_data,
  output wire             out_valid,
  input  wire             out_ready
);
  localparam BITS = DEPTH > 1 ? $clog2(DEPTH) : 1;
  localparam [BITS-1:0] LAST = BITS'(DEPTH - 1);

  reg  [BITS-1:0] head, tail;
  reg  [BITS:0]   count;
  wire            push = in_valid & in_ready;
  wire            pop = out_valid & out_ready;
  wire [BITS-1:0] next_head = !pop ? head : head == LAST ? 0 : head + 1'b1;

`ifdef ACTDMA_CHECK
  reg [1:0] hold;
  always @(posedge clk) begin
    hold <= CHANNEL < 0 ? 2'b0 : 2'(actdma_hold());
    if (push & ~rst) actdma_token(CHANNEL, 2048'(in_data));
  end
  assign in_ready = count != (BITS + 1)'(DEPTH) & ~hold[0];
  assign out_valid = count != 0 & ~hold[1];
`else
  assign in_ready = count != (BITS + 1)'(DEPTH);
  assign out_valid = count != 0;
`endif

  always @(posedge clk) begin
    if (rst) begin
      head <= 0;
      tail <= 0;
      count <= 0;
    end else begin
      head <= next_head;
      if (push) tail <= tail == LAST ? 0 : tail + 1'b1;
      count <= count + (BITS + 1)'(push) - (BITS + 1)'(pop);
    end
  end

  generate
    if (BLOCK_RAM) begin : block
      // Read a cycle ahead; a token that is written where the next one will be read goes past.
      (* ram_style = "block" *) reg [WIDTH-1:0] memory[0:DEPTH-1];
      reg [WIDTH-1:0] read, passed;
      reg             passes;
      always @(posedge clk) begin
        if (push) memory[tail] <= in_data;
        read <= memory[next_head];
        passed <= in_data;
        passes <= push & tail == next_head;
      end
      assign out_data = passes ? passed : read;
    end else begin : lut
      (* ram_style = "distributed" *) reg [WIDTH-1:0] memory[0:DEPTH-1];
      always @(posedge clk) if (push) memory[tail] <= in_data;
      assign out_data = memory[head];
    end
  endgenerate
endmodule
