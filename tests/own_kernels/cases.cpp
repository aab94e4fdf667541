// Tops of a few lines, good and bad ones, compiled together: the variable CASE chooses one.
#include <ap_axi_sdata.h>
#include <ap_int.h>
#include <hls_stream.h>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

typedef ap_axiu<32, 0, 0, 0> beat;
typedef hls::stream<beat> port;

// Every beat of a packet through `step`.
template <class Step>
static void each(port& in, port& out, Step step) {
  beat b;
  do {
    b = in.read();
    step(b);
    out.write(b);
  } while (!b.last);
}
static void echo(port& in, port& out) {
  each(in, out, [](beat&) {});
}
static beat skip(port& in) {
  beat b;
  do b = in.read();
  while (!b.last);
  return b;
}

static const std::map<std::string, void (*)(port&, port&)> kCases = {
    {"echo", echo},
    {"keeps 3 bytes of the last beat, and its keep as data",
     [](port& in, port& out) {
       each(in, out, [](beat& b) {
         if (b.last) {
           b.data = b.keep;
           b.keep = 7;
         }
       });
     }},
    {"a packet of each beat, two a call",
     [](port& in, port& out) {
       for (int i = 0; i < 2; i++) {
         beat b = in.read();
         b.last = 1;
         out.write(b);
       }
     }},
    {"the sum of packets, when above 9",
     [](port& in, port& out) {
       static unsigned sum = 0;
       beat b;
       do {
         b = in.read();
         sum += b.data.to_uint();
       } while (!b.last);
       if (sum > 9) {
         b.data = sum;
         sum = 0;
         out.write(b);
       }
     }},
    {"how often it was called",
     [](port& in, port& out) {
       static int calls = 0;
       beat b = skip(in);
       b.data = ++calls;
       out.write(b);
     }},
    {"four beats a call",
     [](port& in, port& out) {
       for (int i = 0; i < 4; i++) out.write(in.read());
     }},
    {"prints",
     [](port& in, port& out) {
       std::cout << "a line";
       std::printf(" and another\n");
       echo(in, out);
     }},
    {"reads on after 13",
     [](port& in, port& out) {
       each(in, out, [&](beat& b) {
         if (b.data == 13) in.read();
       });
     }},
    {"reads too much",
     [](port& in, port&) {
       for (int i = 0; i < 3; i++) in.read();
     }},
    {"does not read", [](port&, port& out) { out.write(beat()); }},
    {"reads an empty fifo",
     [](port&, port&) {
       hls::stream<int> fifo("fifo");
       fifo.write(1);
       fifo.read();
       fifo.read();
     }},
    {"leaves data in a fifo",
     [](port& in, port& out) {
       hls::stream<int, 8> fifo("fifo");
       fifo.write(1);
       echo(in, out);
     }},
    {"leaves data in a static fifo",
     [](port& in, port& out) {
       static hls::stream<int> fifo("kept");
       fifo.write(1);
       echo(in, out);
     }},
    {"goes on after TLAST",
     [](port& in, port& out) {
       echo(in, out);
       beat b;
       b.keep = -1;
       out.write(b);
     }},
    {"forgets TKEEP", [](port& in, port& out) { each(in, out, [](beat& b) { b.keep = 0; }); }},
    {"leaves a gap in TKEEP",
     [](port& in, port& out) {
       each(in, out, [](beat& b) {
         if (b.last) b.keep = 5;
       });
     }},
    {"throws", [](port&, port&) { throw std::runtime_error("an error of its own"); }},
    {"writes for ever",
     [](port&, port& out) {
       for (;;) out.write(beat());
     }},
    {"never returns",
     [](port& in, port&) {
       for (;;) in.empty();
     }},
    {"writes to nowhere", [](port&, port&) { *(volatile int*)8 = 1; }},
    {"fails an assertion", [](port&, port&) { assert(1 == 2); }},
    {"exits", [](port&, port&) { std::exit(3); }},
};

void cases(port& s_axis, port& m_axis) { kCases.at(std::getenv("CASE"))(s_axis, m_axis); }

// Other beats.
struct sample {
  float data;
  ap_uint<1> last;
};
template <class Beat>
void negate(hls::stream<Beat>& s_axis, hls::stream<Beat>& m_axis) {
  Beat b;
  do {
    b = s_axis.read();
    b.data = -b.data;
    m_axis.write(b);
  } while (!b.last);
}

// Ports that a DMA has not.
void narrow(hls::stream<ap_axiu<48, 0, 0, 0> >&, hls::stream<ap_axiu<48, 0, 0, 0> >&) {}
void unequal(hls::stream<ap_axiu<64, 0, 0, 0> >&, hls::stream<ap_axiu<32, 0, 0, 0> >&) {}
void bare(hls::stream<ap_uint<32> >&, hls::stream<ap_uint<32> >&) {}
void registers(port&, port&, int) {}
