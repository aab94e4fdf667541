// Stands in for libFuzzer where the compiler has none (g++): the same entry points, the same
// options -runs, -max_total_time, -max_len and -seed, coverage of the basic blocks by
// -fsanitize-coverage=trace-pc. An argument that is no option is an input to run, or a folder that
// is not there yet, for the inputs that have found new blocks.
#include <sanitizer/common_interface_defs.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "target.hpp"

using namespace actdma::fuzz;
using Clock = std::chrono::steady_clock;

namespace {

constexpr unsigned kHangSeconds = 60;  // of the processor, for kChecked inputs
constexpr uint64_t kChecked = 1024;    // inputs between two looks at the clock

// Blocks seen, by a hash of their address.
uint8_t seen[1 << 16];
uint64_t blocks_seen = 0;

// The input that runs, and the one before it: an engine goes on from one to the next.
Bytes current, previous;

void write(const char* path, const Bytes& input) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data()), static_cast<long>(input.size()));
}

void on_death() {
  write("crash-previous", previous);
  write("crash", current);
  std::fprintf(stderr, "inputs written to ./crash and, of the one before it, ./crash-previous\n");
}

void on_hang(int) {
  std::fprintf(stderr, "FAILED: no end after %u seconds\n", kHangSeconds);
  on_death();
  _exit(1);
}

struct Options {
  uint64_t runs = ~uint64_t{0};
  uint64_t seconds = ~uint64_t{0};
  size_t max_len = 24000;
  uint64_t seed = 1;
  std::vector<std::string> paths;
};

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; i++) {
    const std::string argument = arguments[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (argument[0] != '-') {
      options.paths.push_back(argument);
      continue;
    }
    const uint64_t value =
        equals == std::string::npos ? 0 : std::stoull(argument.substr(equals + 1));
    if (name == "-runs") {
      options.runs = value;
    } else if (name == "-max_total_time") {
      options.seconds = value;
    } else if (name == "-max_len") {
      options.max_len = value;
    } else if (name == "-seed") {
      options.seed = value;
    } else {
      std::fprintf(stderr, "unknown option %s; there are -runs, -max_total_time, -max_len, -seed\n",
                   name.c_str());
      std::exit(2);
    }
  }
  return options;
}

void run(const Bytes& input) {
  previous.swap(current);
  current = input;
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// Inputs that have found new blocks.
class Corpus {
 public:
  // One of them, or two of them spliced, mutated.
  Bytes next(const Options& options, Random& random) const {
    Bytes input(options.max_len);
    if (inputs_.empty()) {
      input.resize(LLVMFuzzerCustomMutator(input.data(), 0, options.max_len, random()));
      return input;
    }
    const Bytes& one = inputs_[random.below(inputs_.size())];
    const Bytes& other = inputs_[random.below(inputs_.size())];
    size_t size = one.size();
    if (random.one_in(16)) {
      size = LLVMFuzzerCustomCrossOver(one.data(), one.size(), other.data(), other.size(),
                                       input.data(), options.max_len, random());
    } else {
      std::copy(one.begin(), one.end(), input.begin());
      size = LLVMFuzzerCustomMutator(input.data(), size, options.max_len, random());
    }
    input.resize(size);
    return input;
  }
  void add(const Bytes& input) { inputs_.push_back(input); }
  size_t size() const { return inputs_.size(); }
  void save(const std::string& folder) const {
    std::filesystem::create_directories(folder);
    for (size_t i = 0; i < inputs_.size(); i++)
      write((folder + "/" + std::to_string(i)).c_str(), inputs_[i]);
  }

 private:
  std::vector<Bytes> inputs_;
};

int fuzz_for(const Options& options) {
  const auto start = Clock::now();
  auto seconds = [&] {
    return std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start).count();
  };
  const itimerval watch = {{0, 0}, {kHangSeconds, 0}};
  Random random(options.seed);
  Corpus corpus;
  uint64_t runs = 0, next_report = 1;
  for (; runs < options.runs; runs++) {
    if (runs % kChecked == 0) {
      setitimer(ITIMER_PROF, &watch, nullptr);
      if (static_cast<uint64_t>(seconds()) >= options.seconds) break;
      if (runs >= next_report * kChecked) {
        std::printf("%" PRIu64 " inputs, %lld s, %" PRIu64 " blocks, corpus %zu\n", runs,
                    static_cast<long long>(seconds()), blocks_seen, corpus.size());
        std::fflush(stdout);
        next_report *= 2;
      }
    }
    const uint64_t before = blocks_seen;
    run(corpus.next(options, random));
    if (blocks_seen != before) corpus.add(current);
  }
  std::printf("done: %" PRIu64 " inputs, %lld s, %" PRIu64 " blocks, corpus %zu\n", runs,
              static_cast<long long>(seconds()), blocks_seen, corpus.size());
  if (!options.paths.empty()) corpus.save(options.paths[0]);
  return 0;
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& block = seen[(pc * 0x9E3779B97F4A7C15) >> 48];
  blocks_seen += !block;
  block = 1;
}

extern "C" const char* __asan_default_options() { return "handle_abort=1:detect_leaks=0"; }

int main(int count, char** arguments) {
  __sanitizer_set_death_callback(on_death);
  std::signal(SIGPROF, on_hang);
  const Options options = parse(count, arguments);
  bool replayed = false;
  for (const std::string& path : options.paths) {
    if (!std::filesystem::exists(path)) continue;
    std::vector<std::filesystem::path> files = {path};
    if (std::filesystem::is_directory(path)) {
      files.clear();
      for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry);
    }
    for (const auto& file : files) run(read(file));
    std::printf("%s: %zu inputs\n", path.c_str(), files.size());
    replayed = true;
  }
  return replayed ? 0 : fuzz_for(options);
}
