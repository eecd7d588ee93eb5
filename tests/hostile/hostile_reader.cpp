// hostile_reader LIST: loads each path in LIST, in a sandbox and with a memory limit. Prints:
//
//   begin PATH
//   end ANSWER KIB MESSAGE      ANSWER: read, corrupt, unsupported, or what else was thrown;
//                               KIB: by how much peak memory grew
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/dtensor.h"
#include "cairn/error.h"
#include "cairn/foreign.h"

#include "checkpoint/convert/consolidate.h"
#include "checkpoint/convert/lost_objects.h"
#include "checkpoint/open/source.h"
#include "tests/hostile/sandbox.h"

namespace cairn::testing {
namespace {

// Opens its files before the process enters the sandbox.
struct MemoryMeter {
  int reset = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  int status = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);

  void start() const {
    if (::pwrite(reset, "5", 1, 0) != 1) std::abort();
  }
  long peak_kib() const {
    std::array<char, 4096> text{};
    if (::pread(status, text.data(), text.size() - 1, 0) <= 0) std::abort();
    const std::string all = text.data();
    return std::atol(all.c_str() + all.find("VmHWM:") + 6);
  }
};

// Does everything that a program would do with a checkpoint: checks each byte, uses each tensor.
void use(const std::string& path) {
  constexpr std::int64_t kMaxElements = 1 << 20;
  // load() refuses TorchScript archives, but they can be converted.
  const std::optional<Value> weights = open_source(path)->state_dict();
  const Value value = weights ? *weights : load(path);
  for (const auto& [name, tensor] : tensors_of(value)) {
    if (tensor->numel() <= kMaxElements) tensor->contiguous_bytes();
  }
  for (const auto& [name, object] : foreign_objects(value)) {
    object->class_name();
    if (const auto tensor = find_dtensor(*object)) mesh_ranks(tensor->mesh);
  }
  lost_objects(consolidate({{.name = path, .value = value}}, {}).value, {});
}

std::string answer_to(const std::string& path, std::string& message) {
  try {
    use(path);
    return "read";
  } catch (const CorruptError& e) {
    message = e.what();
    return "corrupt";
  } catch (const UnsupportedError& e) {
    message = e.what();
    return "unsupported";
  } catch (const NotFoundError& e) {
    message = e.what();
    return "not_found";
  } catch (const Error& e) {
    message = e.what();
    return "other_error";
  } catch (const std::bad_alloc&) {
    return "out_of_memory";
  } catch (const std::exception& e) {
    message = e.what();
    return "foreign_exception";
  }
}

// Sets no limit with the sanitizers, which map terabytes that they do not use.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr rlim_t kMax = rlim_t{1} << 30;
  const rlimit limit = {kMax, kMax};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
#endif
}

int run(const char* list) {
  std::vector<std::string> paths;
  std::ifstream file(list);
  for (std::string line; std::getline(file, line);) {
    paths.push_back(line);
  }
  const MemoryMeter meter;
  limit_memory();
  if (!enter_sandbox()) {
    std::puts("no sandbox");
    return 77;
  }
  for (const std::string& path : paths) {
    std::printf("begin %s\n", path.c_str());
    std::fflush(stdout);
    meter.start();
    const long before = meter.peak_kib();
    std::string message;
    const std::string answer = answer_to(path, message);
    for (char& c : message) {
      if (c == '\n') c = ' ';
    }
    std::printf("end %s %ld %s\n", answer.c_str(), meter.peak_kib() - before, message.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace cairn::testing

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--break-out") {  // proves that the sandbox works
    if (!cairn::testing::enter_sandbox()) return 77;
    return ::open("/tmp/cairn_hostile_reader", O_WRONLY | O_CREAT, 0600) >= 0 ? 0 : 1;
  }
  const int code = argc == 2 ? cairn::testing::run(argv[1]) : 2;
  std::fflush(stdout);
  ::_exit(code);  // the leak checker would fork
}
