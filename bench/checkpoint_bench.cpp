// Measures the cost of saving and loading, and of simpler operations on the same bytes.
// checkpoint_bench.py runs it and compares with torch.save and torch.load.
//
//   checkpoint_bench FOLDER SIZES [RUNS [saves | loads | all [DEVICE]]]
//
// DEVICE is where the model's tensors are, "cpu" or "cuda:0". With `saves`, nothing is loaded,
// which takes most of the time, and nothing is recycled. stall_first and saver_first are then first
// saves only in the first run. With `loads`, one save is made, to be loaded.
//
// SIZES is a file of numbers: the elements of each float32 parameter of a model. Prints a line for
// each run and quantity: name, seconds, and CPU seconds of all threads; for memory, name and MiB.
// The first run warms up and is not printed.
//   memcpy         the bytes, into memory that was touched before
//   raw_write      the bytes, from one buffer into a new file: direct I/O, two threads, fdatasync
//   raw_rewrite    as raw_write, into the file that raw_write left
//   raw_read       that file, by direct I/O
//   raw_read_fresh as raw_read, into memory not touched before, as a load needs if it changes
//                  nothing before it has checked everything
//   memcpy_fresh   memcpy into such memory
//   save           save(): encode, CRC, write, fdatasync, rename, fsync of the folder; a new file
//   save_recycled  as save, over the file of a retired checkpoint: recycling_local_store()
//   load_cold      load_checkpoint() into the live parameters, every byte verified, from the disk
//   load_warm      as load_cold, from the page cache
//   in_place_cold, in_place_warm  both, read straight into the parameters: in_place
// On a device that is not the processor, each of the same bytes:
//   device_copy    from memory of the device to other memory of it
//   to_host, to_device  with one copy from, or into, its memory, pinned memory on the host
//   to_cpu         .cpu() of every tensor
//   steps          products of matrices on the device
//   steps_saving   the same while an asynchronous save is written
// On every device:
//   gather         the state as a Value of views, by checkpoint_value(), which keeps nothing
// With a saver, as a run has one (StateGatherer, SavePipeline): its first save of a model, and
// later saves of the same tensors with other numbers:
//   saver_first, saver_next  the state gathered and saved, durable; a new file each
//   gather_next    the state gathered, with the same tensors as before
//   stall_first, stall  the time that training waits: gathering, and submit() with nothing
//                  pending
//   async_save     from submit() on until the save is durable
//   save_memory    growth of the process's peak memory while save() runs
//   async_memory   the same from submit() on, when the pipeline is new
//   load_memory, in_place_memory  the same while load_checkpoint() runs, including pages of a
//                  mapped file
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fcntl.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/plan/save_pipeline.h"
#include "io/memory/page_memory.h"
#include "train/state/gather/sharded_state.h"
#include "train/state/gather/state_gatherer.h"

namespace {

// A field of /proc/self/status, in MiB.
double memory_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) / 1024;
  }
  return 0;
}

// Returns the growth of peak memory while `body` runs.
double growth_mib(const std::function<void()>& body) {
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak to the current memory
  const double before = memory_mib("VmHWM");
  body();
  return memory_mib("VmHWM") - before;
}

// Numbers that do not compress: a random mantissa and sign each.
void fill(at::Tensor& tensor, std::uint64_t& random) {
  auto* bits = static_cast<std::uint32_t*>(tensor.data_ptr());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    bits[i] = (static_cast<std::uint32_t>(random) & 0x807fffffu) | 0x3d000000u;
  }
}

class Parameters final : public cairn::Model {
 public:
  explicit Parameters(const std::vector<std::int64_t>& sizes) {
    std::uint64_t random = 88172645463325252u;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      at::Tensor tensor = torch::empty({sizes[i]});
      fill(tensor, random);
      net_->register_parameter("layer" + std::to_string(i) + "_weight", tensor, false);
    }
  }
  torch::nn::Module& module() override { return *net_; }
  cairn::Outputs forward(const cairn::Batch& batch) override { return batch[0]; }
  cairn::Losses loss(const cairn::Outputs& outputs, const cairn::Batch& /*batch*/) override {
    return outputs.single();
  }

 private:
  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>("Parameters");
};

// Only direct I/O on a file: the physical limit. Goes through the page cache where the file system
// has no direct I/O.
class RawFile {
 public:
  RawFile(const std::string& path, int flags, bool direct = true)
      : fd_(::open(path.c_str(), flags | (direct ? O_DIRECT : 0), 0600)) {
    if (fd_ < 0) fd_ = ::open(path.c_str(), flags, 0600);
    if (fd_ < 0) throw std::runtime_error("cannot open " + path);
  }
  ~RawFile() { ::close(fd_); }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  void write(std::byte* data, std::size_t size) {
    transfer(size, [&](std::size_t at, std::size_t n) { return ::pwrite(fd_, data + at, n, at); });
    if (::fdatasync(fd_) != 0) throw std::runtime_error("fdatasync failed");
  }
  void read(std::byte* into, std::size_t size) {
    transfer(size, [&](std::size_t at, std::size_t n) { return ::pread(fd_, into + at, n, at); });
  }

 private:
  // Two blocks in flight.
  template <class Call>
  static void transfer(std::size_t size, Call call) {
    constexpr std::size_t kBlock = std::size_t{8} << 20;
    std::atomic<std::size_t> next = 0;
    std::atomic<bool> failed = false;
    const auto work = [&] {
      for (std::size_t at = next.fetch_add(kBlock); at < size; at = next.fetch_add(kBlock)) {
        const std::size_t n = std::min(kBlock, size - at);
        if (call(at, n) != static_cast<ssize_t>(n)) failed = true;
      }
    };
    std::thread other(work);
    work();
    other.join();
    if (failed) throw std::runtime_error("a raw read or write failed");
  }

  int fd_;
};

class Bench {
 public:
  Bench(std::string folder, const std::vector<std::int64_t>& sizes, const std::string& only,
        c10::Device device)
      : folder_(std::move(folder)),
        only_saves_(only == "saves"),
        only_loads_(only == "loads"),
        device_(device) {
    state_.model = std::make_shared<Parameters>(sizes);
    std::size_t bytes = 0;
    for (const std::int64_t size : sizes)
      bytes += static_cast<std::size_t>(size) * sizeof(float);
    bytes = (bytes + 4095) / 4096 * 4096;  // direct I/O's unit
    from_ = cairn::PageMemory(bytes);
    to_ = cairn::PageMemory(bytes);
    std::size_t at = 0;
    for (const at::Tensor& tensor : state_.model->module().parameters()) {
      std::memcpy(from_.data() + at, tensor.data_ptr(), tensor.nbytes());
      at += tensor.nbytes();
    }
    state_.model->module().to(device_);
    std::memset(to_.data(), 1, bytes);
  }

  void run(bool print) {
    prints_ = print;
    time("gather", [&] { (void)weights(); });
    time("memcpy", [&] { std::memcpy(to_.data(), from_.data(), from_.size()); });
    warm_up_memory();
    time("memcpy_fresh", [&] {
      const cairn::PageMemory fresh(from_.size());
      std::memcpy(fresh.data(), from_.data(), from_.size());
    });
    if (!device_.is_cpu()) on_device();
    raw();
    if (!only_saves_ && !only_loads_) recycled();
    settle();
    time("save", [&] { cairn::save(weights(), path()); });
    if (!only_saves_) load();
    settle();
    if (!only_loads_) saver();
    std::fflush(stdout);
  }

 private:
  void on_device() {
    const torch::NoGradGuard no_grad;
    const at::TensorOptions bytes(at::kByte);
    const auto size = static_cast<std::int64_t>(from_.size());
    const at::Tensor host = at::empty({size}, bytes.pinned_memory(true));
    std::memcpy(host.data_ptr(), from_.data(), from_.size());
    const at::Tensor memory = at::empty({size}, bytes.device(device_));
    const at::Tensor other = at::empty_like(memory);
    time("to_device", [&] { memory.copy_(host, /*non_blocking=*/true); });
    time("device_copy", [&] { other.copy_(memory); });
    time("to_host", [&] { host.copy_(memory, /*non_blocking=*/true); });
    time("to_cpu", [&] {
      for (const at::Tensor& tensor : state_.model->module().parameters()) {
        (void)tensor.cpu();
      }
    });
  }

  void steps(const char* name) {
    constexpr int kSteps = 400;
    const torch::NoGradGuard no_grad;
    at::Tensor a = torch::rand({2048, 2048}, at::TensorOptions(at::kFloat).device(device_));
    const at::Tensor b = torch::rand_like(a) / 1024;
    time(name, [&] {
      for (int i = 0; i < kSteps; ++i) {
        a = a.matmul(b);
        if (i % 10 == 0) wait_for_device();
      }
    });
  }

  void wait_for_device() const {
    if (device_.is_cpu()) return;
    const c10::impl::VirtualGuardImpl guard(device_.type());
    guard.synchronizeStream(guard.getStream(device_));
  }

  void saver() {
    memory("save_memory", [&] { cairn::save(weights(), path()); });
    settle();
    time("saver_first", [&] { waiting_.submit({.value = gathered(), .path = path()}); });
    settle();
    time("saver_next", [&] { waiting_.submit({.value = gathered(), .path = path()}); });
    time("gather_next", [&] { (void)gathered(); });
    settle();
    const double grown = growth_mib([&] {
      time("stall_first", [&] { pipeline_.submit({.value = gathered(), .path = path()}); });
      pipeline_.wait();
    });
    settle();
    time("stall", [&] { pipeline_.submit({.value = gathered(), .path = path()}); });
    time("async_save", [&] { pipeline_.wait(); });
    if (!async_memory_) async_memory_ = grown;  // only the first time, because its memory is kept
    if (prints_) std::printf("async_memory %.1f\n", *async_memory_);
    settle();
    if (device_.is_cpu()) return;
    steps("steps");
    pipeline_.submit({.value = gathered(), .path = path()});
    steps("steps_saving");
    pipeline_.wait();
    settle();
  }

  std::string path() const { return folder_ + "/checkpoint_bench.pt"; }

  cairn::Value weights() { return cairn::checkpoint_value(state_, {.weights_only = true}); }

  cairn::Value gathered() {
    cairn::WholeState whole(state_, /*weights_only=*/true);
    return gatherer_.checkpoint_value(state_, {}, whole, {.weights_only = true}, nullptr);
  }

  void raw() {
    settle();
    time("raw_write",
         [&] { RawFile(path(), O_WRONLY | O_CREAT | O_TRUNC).write(from_.data(), from_.size()); });
    time("raw_rewrite", [&] { RawFile(path(), O_WRONLY).write(from_.data(), from_.size()); });
    time("raw_read", [&] { RawFile(path(), O_RDONLY).read(to_.data(), to_.size()); });
    if (std::memcmp(from_.data(), to_.data(), to_.size()) != 0) {
      throw std::runtime_error("a raw read gave other bytes");
    }
    warm_up_memory();
    time("raw_read_fresh", [&] {
      const cairn::PageMemory fresh(from_.size());
      RawFile(path(), O_RDONLY).read(fresh.data(), fresh.size());
    });
  }

  void recycled() {
    settle();
    const auto store = cairn::recycling_local_store();
    const std::string before = folder_ + "/checkpoint_bench_before.pt";
    cairn::save(weights(), before, {.store = store});
    store->remove(before);  // retires the checkpoint
    ::sync();
    time("save_recycled", [&] { cairn::save(weights(), path(), {.store = store}); });
  }

  void load() {
    for (const bool in_place : {false, true}) {
      // Memory from the previous load would be reused. A program's parameters have memory of their
      // own.
      for (at::Tensor tensor : state_.model->module().parameters()) {
        tensor.set_data(tensor.clone());
      }
      wait_for_device();
      const std::string name = in_place ? "in_place" : "load";
      const auto load = [&] {
        cairn::load_checkpoint(path(), state_, logger_,
                               {.load_weights_only = true, .in_place = in_place});
      };
      drop_from_page_cache();
      warm_up_memory();
      time((name + "_cold").c_str(), load);
      RawFile(path(), O_RDONLY, /*direct=*/false).read(to_.data(), to_.size());
      warm_up_memory();
      time((name + "_warm").c_str(), load);
      memory((name + "_memory").c_str(), load);
    }
    const at::Tensor first = state_.model->module().parameters().front().cpu();
    if (std::memcmp(first.data_ptr(), from_.data(), first.nbytes()) != 0) {
      throw std::runtime_error("the loaded state differs from the saved one");
    }
  }

  // The host of a virtual machine provides memory when it is first touched, and takes back memory
  // that was free for some seconds. So one measurement can take ten times as long as another. This
  // makes as much memory as a measurement needs in use just before it.
  void warm_up_memory() const {
    const cairn::PageMemory memory(from_.size() + from_.size() / 4);
    std::memset(memory.data(), 1, memory.size());
  }

  void drop_from_page_cache() const {
    const int fd = ::open(path().c_str(), O_RDONLY);
    if (fd < 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) {
      throw std::runtime_error("cannot drop the file from the page cache");
    }
    ::close(fd);
  }

  // Each measurement makes a new file on an idle disk.
  void settle() const {
    ::unlink(path().c_str());
    ::sync();
  }

  void time(const char* name, const std::function<void()>& body) const {
    const std::clock_t cpu = std::clock();
    const auto start = std::chrono::steady_clock::now();
    body();
    wait_for_device();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (!prints_) return;
    std::printf("%s %.5f %.5f\n", name, seconds.count(),
                static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  }
  void memory(const char* name, const std::function<void()>& body) const {
    const double grown = growth_mib(body);
    if (prints_) std::printf("%s %.1f\n", name, grown);
  }

  std::string folder_;
  bool only_saves_;
  bool only_loads_;
  c10::Device device_;
  cairn::State state_;
  cairn::Logger logger_{state_};
  cairn::PageMemory from_;
  cairn::PageMemory to_;
  cairn::StateGatherer gatherer_;
  cairn::SavePipeline waiting_{{.async = false}};
  cairn::SavePipeline pipeline_;
  std::optional<double> async_memory_;
  bool prints_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: checkpoint_bench FOLDER SIZES [RUNS [saves | loads | all [DEVICE]]]\n",
               stderr);
    return 2;
  }
  std::ifstream file(argv[2]);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 0; file >> size;) {
    sizes.push_back(size);
  }
  const int runs = argc > 3 ? std::stoi(argv[3]) : 3;
  try {
    Bench bench(argv[1], sizes, argc > 4 ? argv[4] : "", c10::Device(argc > 5 ? argv[5] : "cpu"));
    for (int run = 0; run <= runs; ++run) {
      bench.run(run > 0);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_bench: %s\n", error.what());
    return 1;
  }
}
