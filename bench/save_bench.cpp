// What a save costs: run by save_bench.py, which sets it beside torch.save; of use alone, too.
//
//   save_bench FOLDER TENSORS [MIB] [RUNS]
//
// prints one line for each run and quantity, in seconds or MiB:
//   durable_save    save(): encode, CRC, write, fdatasync, rename, fsync of the folder; a new file
//   submit_stall    SavePipeline::submit() with nothing pending: what training waits for
//   memcpy          the same bytes copied into memory that was touched before
//   raw_write       the same bytes through AtomicFile alone, from one buffer: durable, no zip, CRC
//
//   load_verified   load(): every byte checked, tensors mapped; from the disk, since save() writes
//                   past the page cache
//
//   save_extra_mib  growth of the process's peak memory while save() runs
//
//   async_extra_mib the same for submit() and all that follows, with a pipeline that is new
//
// The first run of everything warms up and is not printed.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

#include "checkpoint/plan/save_pipeline.h"
#include "io/atomic_file.h"
#include "io/page_memory.h"

namespace cairn {
namespace {

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A field of /proc/self/status, in MiB.
double memory_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) / 1024;
  }
  return 0;
}

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

class Bench {
 public:
  Bench(std::string folder, std::size_t tensors, std::size_t bytes)
      : folder_(std::move(folder)), memory_(bytes), copy_(bytes) {
    std::memset(memory_.data(), 0x3c, bytes);
    std::memset(copy_.data(), 1, bytes);
    const std::size_t each = bytes / tensors / sizeof(float) * sizeof(float);
    Dict model;
    for (std::size_t i = 0; i < tensors; ++i) {
      model.set("layer" + std::to_string(i) + ".weight",
                make_tensor(DType::kFloat32, {static_cast<std::int64_t>(each / sizeof(float))},
                            {{memory_.data() + i * each, each}, nullptr}));
    }
    value_ = Dict{{"state", Dict{{"model", std::move(model)}}}};
  }

  void run(bool print) {
    const auto report = [print](const char* name, double amount) {
      if (print) std::printf("%s %.4f\n", name, amount);
    };
    report("memcpy", seconds([&] { std::memcpy(copy_.data(), memory_.data(), memory_.size()); }));
    settle();
    report("raw_write", seconds([&] { write_raw(); }));
    settle();
    reset_peak_memory();
    const double before = memory_mib("VmHWM");
    report("durable_save", seconds([&] { save(value_, path()); }));
    report("save_extra_mib", memory_mib("VmHWM") - before);
    report("load_verified", seconds([&] { (void)load(path()); }));
    settle();
    reset_peak_memory();
    const double before_submit = memory_mib("VmHWM");
    report("submit_stall", seconds([&] { pipeline_.submit({.value = value_, .path = path()}); }));
    pipeline_.wait();
    if (!async_extra_mib_) async_extra_mib_ = memory_mib("VmHWM") - before_submit;
    report("async_extra_mib", *async_extra_mib_);  // of the first time: its memory is kept
    std::fflush(stdout);
  }

 private:
  std::string path() const { return join_path(folder_, "save_bench.pt"); }

  void write_raw() {
    AtomicFile file(posix_file_system(), path(), {.expected_bytes = memory_.size()});
    file.write({memory_.data(), memory_.size()});
    file.commit();
  }

  // Each measurement makes a new file, on a disk that has nothing else to do.
  void settle() {
    posix_file_system().remove(path());
    ::sync();
  }

  std::string folder_;
  PageMemory memory_;
  PageMemory copy_;
  Value value_;
  SavePipeline pipeline_;
  std::optional<double> async_extra_mib_;
};

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: save_bench FOLDER TENSORS [MIB] [RUNS]\n", stderr);
    return 2;
  }
  const std::size_t mib = argc > 3 ? std::stoul(argv[3]) : 1024;
  const int runs = argc > 4 ? std::stoi(argv[4]) : 5;
  cairn::Bench bench(argv[1], std::stoul(argv[2]), mib << 20);
  for (int run = 0; run <= runs; ++run) {
    bench.run(run > 0);
  }
}
