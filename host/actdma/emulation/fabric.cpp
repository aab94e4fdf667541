// The HLS engines as the fabric of the emulated board: the same templates that are synthesised, run
// by csim's coroutines between a source and a sink that stand for the AXI DMA's stream side.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "actdma/engine.hpp"
#include "compute_unit.hpp"

namespace py = pybind11;

namespace {

using actdma::AxiBeat;
using actdma::AxiStream;
using actdma::csim::Network;
using actdma::csim::Process;

// One armed transfer, from the host's side.
struct Transfer final : actdma::csim::Waitable {
  using Waitable::Waitable;
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t moved = 0;
  bool armed = false;
  uint64_t number = 0;  // changes when another packet is armed or this one dropped

  bool can_read() const override { return armed; }
  bool can_write() const override { return true; }
  void arm(void* bytes, size_t count) {
    data = static_cast<uint8_t*>(bytes);
    size = count;
    moved = 0;
    armed = true;
    ++number;
  }
  void drop() {
    armed = false;
    ++number;
  }
};

struct Model {
  explicit Model(bool timed) : network(true, timed) {}
  virtual ~Model() = default;

  Network network;
  Transfer mm2s{"MM2S"};
  Transfer s2mm{"S2MM"};
  Process* source = nullptr;
  bool overrun = false;
  uint64_t cycles = 0;
  std::deque<uint64_t> starts;  // when the packets under way entered the engine
};

template <int L>
struct LaneModel final : Model {
  AxiStream<L> in{"AXI input"};
  AxiStream<L> out{"AXI output"};

  LaneModel(bool compress, bool timed) : Model(timed) {
    source = network.spawn("MM2S channel", [this] { feed(); });
    network.spawn("engine", [this, compress] {
      if (compress)
        actdma::compress_engine<L>(in, out);
      else
        actdma::decompress_engine<L>(in, out);
    });
    network.spawn("S2MM channel", [this] { drain(); });
  }

 private:
  void feed() {
    Process* self = actdma::csim::current();
    for (;;) {
      if (!mm2s.armed) self->wait(mm2s, true);
      starts.push_back(self->now);
      const uint64_t number = mm2s.number;
      while (mm2s.number == number && mm2s.moved < mm2s.size) {
        actdma::cycle();
        AxiBeat<L> beat;
        const size_t bytes = std::min<size_t>(4 * L, mm2s.size - mm2s.moved);
        std::memset(beat.w, 0, 4 * L);
        std::memcpy(beat.w, mm2s.data + mm2s.moved, bytes);
        beat.keep = bytes == 4 * L;
        beat.last = mm2s.moved + bytes == mm2s.size;
        in.write(beat);
        if (mm2s.number == number) mm2s.moved += bytes;
      }
      if (mm2s.number == number) mm2s.armed = false;
    }
  }
  void drain() {
    Process* self = actdma::csim::current();
    for (;;) {
      if (!s2mm.armed) self->wait(s2mm, true);
      actdma::cycle();
      const AxiBeat<L> beat = out.read();
      while (!s2mm.armed) self->wait(s2mm, true);  // dropped while it waited
      if (beat.keep && s2mm.moved + 4 * L > s2mm.size) {
        overrun = true;
        s2mm.armed = false;
        continue;
      }
      if (beat.keep) {
        std::memcpy(s2mm.data + s2mm.moved, beat.w, 4 * L);
        s2mm.moved += 4 * L;
      }
      if (beat.last) {
        cycles = network.timed ? self->now - starts.front() : 0;
        starts.pop_front();
        s2mm.armed = false;
      }
    }
  }
};

std::unique_ptr<Model> make_model(const std::string& kind, int lanes, bool timed) {
  const bool compress = actdma::compresses(kind);
  return actdma::with_lanes(lanes, [&](auto width) -> std::unique_ptr<Model> {
    return std::make_unique<LaneModel<width>>(compress, timed);
  });
}

// What Python sees. Lives between runs; a reset makes the model anew. Calls from several threads
// take turns.
class Engine {
 public:
  Engine(std::string kind, int lanes, bool timed)
      : kind_(std::move(kind)), lanes_(lanes), timed_(timed) {
    reset();
  }
  void reset() {
    const Turn turn(mutex_);
    model_ = make_model(kind_, lanes_, timed_);
    sent_from_ = received_into_ = py::none();
  }
  void send(const py::buffer& buffer) {
    const Turn turn(mutex_);
    if (model_->mm2s.armed) throw std::runtime_error("a packet is already being sent");
    const py::buffer_info info = actdma::flat_buffer(buffer, false);
    const size_t size = size_t(info.size * info.itemsize);
    if (size == 0) throw py::value_error("a packet has at least one byte");
    sent_from_ = buffer;
    model_->source->now = model_->network.now();
    model_->mm2s.arm(info.ptr, size);
  }
  void receive(const py::buffer& buffer) {
    const Turn turn(mutex_);
    if (model_->s2mm.armed) throw std::runtime_error("a packet is already being received");
    const py::buffer_info info = actdma::flat_buffer(buffer, true);
    received_into_ = buffer;
    model_->overrun = false;
    model_->s2mm.arm(info.ptr, size_t(info.size * info.itemsize));
  }
  void drop() {
    const Turn turn(mutex_);
    model_->mm2s.drop();
    model_->s2mm.drop();
    sent_from_ = received_into_ = py::none();
  }
  void run() {
    const Turn turn(mutex_);
    {
      py::gil_scoped_release release;
      model_->network.run();
    }
    if (!model_->mm2s.armed) sent_from_ = py::none();
    if (!model_->s2mm.armed) received_into_ = py::none();
  }
  const Model& model() const { return *model_; }
  std::vector<std::string> waiting() {
    const Turn turn(mutex_);
    return model_->network.waiting();
  }
  int lanes() const { return lanes_; }
  bool timed() const { return timed_; }

 private:
  // Holds the mutex, waiting for it without the GIL: its holder may want that.
  class Turn {
   public:
    explicit Turn(std::mutex& mutex) : lock_(mutex, std::try_to_lock) {
      if (lock_) return;
      py::gil_scoped_release release;
      lock_.lock();
    }

   private:
    std::unique_lock<std::mutex> lock_;
  };

  std::string kind_;
  int lanes_;
  bool timed_;
  std::unique_ptr<Model> model_;
  std::mutex mutex_;
  py::object sent_from_, received_into_;
};

}  // namespace

PYBIND11_MODULE(_fabric, m) {
  m.doc() = "The HLS engines compiled for the CPU, as the emulated board's fabric.";
  py::class_<Engine>(m, "Engine",
                     "An engine behind a DMA: implements actdma.emulation.kernel.Kernel.")
      .def(py::init<std::string, int, bool>(), py::arg("kind"), py::arg("lanes") = 4,
           py::arg("timed") = true)
      .def("reset", &Engine::reset, "What ap_rst_n does: forgets everything under way.")
      .def("drop", &Engine::drop, "Disarm both channels: the DMA was reset, the engine was not.")
      .def("send", &Engine::send, py::arg("data"), "Arm one packet; TLAST at its end.")
      .def("receive", &Engine::receive, py::arg("data"), "Arm a writable buffer for one packet.")
      .def("run", &Engine::run, "Run until nothing can move.")
      .def_property_readonly("lanes", &Engine::lanes)
      .def_property_readonly("timed", &Engine::timed)
      .def_property_readonly("sending", [](const Engine& e) { return e.model().mm2s.armed; })
      .def_property_readonly("sent", [](const Engine& e) { return e.model().mm2s.moved; })
      .def_property_readonly("receiving", [](const Engine& e) { return e.model().s2mm.armed; })
      .def_property_readonly("received", [](const Engine& e) { return e.model().s2mm.moved; })
      .def_property_readonly("overrun", [](const Engine& e) { return e.model().overrun; })
      .def_property_readonly("cycles", [](const Engine& e) { return e.model().cycles; })
      .def_property_readonly("waiting", &Engine::waiting);
  py::class_<actdma::ComputeUnit>(m, "ComputeUnit", "An engine between two memory ports.")
      .def(py::init<std::string, int, bool>(), py::arg("kind"), py::arg("lanes") = 16,
           py::arg("timed") = true)
      .def("run", &actdma::ComputeUnit::run, py::arg("in_memory"), py::arg("out_memory"),
           py::arg("packet_bytes"), py::arg("capacity"),
           "One call of the kernel; its clock cycles, 0 where time is not modelled.")
      .def_property_readonly("lanes", &actdma::ComputeUnit::lanes);
}
