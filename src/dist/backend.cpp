// Debian's libtorch, and PyTorch's own, have Gloo. A build that lacks it defines this.
#if !defined(CAIRN_WITHOUT_GLOO) && !defined(USE_C10D_GLOO)
#define USE_C10D_GLOO
#endif

#include "dist/backend.h"

#include <net/if.h>
#include <stdlib.h>

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#ifndef CAIRN_WITHOUT_GLOO
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

#include "cairn/error.h"

#include "io/process/listening_socket.h"

namespace cairn::dist {

void check_interface() {
  const char* const name = getenv("GLOO_SOCKET_IFNAME");
  if (name == nullptr || *name == '\0' || if_nametoindex(name) != 0) return;
  throw UsageError("GLOO_SOCKET_IFNAME is '" + std::string(name) +
                   "', which is no network interface of this machine; `ip link` lists them");
}

#ifdef CAIRN_WITHOUT_GLOO

namespace {
// For a build without Gloo: throws before any rank waits for another rank.
[[noreturn]] void refuse() {
  throw UnsupportedError(
      "this cairn was built without Gloo, which several processes need: install Gloo's headers "
      "(Debian: libgloo-dev) and build cairn again, or train in one process");
}
}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const MeetingPlace&, bool, std::chrono::milliseconds) {
  refuse();
}
c10::intrusive_ptr<c10d::Store> with_prefix(const std::string&, c10::intrusive_ptr<c10d::Store>) {
  refuse();
}
c10::intrusive_ptr<Backend> open_gloo(const c10::intrusive_ptr<c10d::Store>&, const Member&) {
  refuse();
}

#else

namespace {

// If c10d offers a choice, TCPStore uses libuv by default, even in a libtorch built without libuv
// (Debian's 2.14), and then throws. This function selects the other implementation, which speaks
// the same protocol. Returns whether libuv was selected before.
template <class Options>
bool disable_libuv(Options& options) {
  if constexpr (requires { options.useLibUV; }) return std::exchange(options.useLibUV, false);
  return false;
}

constexpr const char* kLoopback = "127.0.0.1";

c10::intrusive_ptr<c10d::TCPStore> make_store(const std::string& host,
                                              c10d::TCPStoreOptions& options) {
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const std::exception& error) {
    const bool is_of_libuv = std::string(error.what()).find("libuv") != std::string::npos;
    if (!is_of_libuv || !disable_libuv(options)) throw;
  }
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

// Connects to rank 0 of this machine, which may not listen yet. c10d tries to connect only once a
// second, which would delay whole jobs. A try of this function costs microseconds.
c10::intrusive_ptr<c10d::TCPStore> join_at_loopback(c10d::TCPStoreOptions options) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  constexpr milliseconds kPause{5};
  constexpr milliseconds kOneTry{1000};  // c10d tries once in this time.
  const milliseconds timeout = options.timeout;
  const auto deadline = steady_clock::now() + timeout;
  while (!is_listened_at_loopback(options.port) && steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPause);
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  options.timeout = std::max(left, kOneTry);
  auto store = make_store(kLoopback, options);
  store->setTimeout(timeout);
  return store;
}

// Makes a TCPStore that listens only at the loopback address. Old versions (libtorch 1.13) take no
// socket from the caller. A store of such a version first listens at any port; then this function
// replaces its descriptor with our socket.
template <class Options>
c10::intrusive_ptr<c10d::TCPStore> serve_loopback(Options options) {
  FileDescriptor own = listen_at_loopback(options.port);
  if constexpr (requires { options.masterListenFd; }) {
    options.masterListenFd = own.release();
    return make_store(kLoopback, options);
  } else {
    options.port = 0;
    auto store = make_store(kLoopback, options);
    const auto wait_for_answer = [&] { store->check({"listens"}); };
    wait_for_answer();  // Our connections are now accepted: closing the old socket resets others.
    replace_listener(store->getPort(), own);
    wait_for_answer();  // Now the store no longer waits on the old socket, which is closed.
    return store;
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const MeetingPlace& place, bool listens,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = listens;
  options.waitWorkers = false;  // group.cpp finds missing ranks by name.
  options.timeout = timeout;
  if (!place.is_of_loopback) return make_store(place.host, options);
  return listens ? serve_loopback(options) : join_at_loopback(options);
}

c10::intrusive_ptr<c10d::Store> with_prefix(const std::string& prefix,
                                            c10::intrusive_ptr<c10d::Store> store) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store));
}

c10::intrusive_ptr<Backend> open_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                      const Member& member) {
  using Gloo = c10d::ProcessGroupGloo;
  const auto options = Gloo::Options::create();
  options->timeout = member.timeout;
  const char* interface = getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0') {
    options->devices.push_back(Gloo::createDeviceForInterface(interface));
  } else if (member.is_one_machine) {
    options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  } else {
    options->devices.push_back(Gloo::createDefaultDevice());
  }
  options->threads = 2;
  return c10::make_intrusive<Gloo>(store, member.rank, member.world_size, options);
}

#endif

namespace {

// The value of a variable; "" if it is not set.
std::string wanted_by(const char* variable, const std::string& direct, const char* usual) {
  const char* const value = getenv(variable);
  const std::string wanted = value == nullptr ? "" : value;
  if (wanted.empty() || wanted == direct || wanted == "gloo") return wanted;
  throw UsageError(std::string(variable) + " is '" + wanted + "'; it is " + direct + " or gloo, " +
                   usual);
}

Transport transport_of_gpu() {
  const std::string wanted =
      wanted_by("CAIRN_CUDA_BACKEND", "nccl", "by default nccl where cairn was built with it");
#ifdef CAIRN_WITH_NCCL
  return wanted == "gloo" ? Transport::kGloo : Transport::kNccl;
#else
  if (wanted == "nccl") {
    throw UsageError(
        "CAIRN_CUDA_BACKEND is nccl, and this cairn was built without NCCL: build it with a "
        "libtorch for CUDA and NCCL's headers (Debian: libnccl-dev), or leave the variable "
        "out.\nGPUs then send through host memory");
  }
  return Transport::kGloo;
#endif
}

Transport transport_of_host() {
  if (wanted_by("CAIRN_CPU_BACKEND", "mpi", "by default gloo") != "mpi") return Transport::kGloo;
#ifdef CAIRN_WITH_MPI
  return Transport::kMpi;
#else
  throw UsageError(
      "CAIRN_CPU_BACKEND is mpi, and this cairn was built without MPI: build it with MPI's headers "
      "and a libtorch that has MPI (Debian's and PyTorch's own do not), or leave the variable "
      "out.\nmpirun also starts processes that use Gloo");
#endif
}

}  // namespace

Transport transport_of(at::Device device) {
  if (device.is_cuda()) return transport_of_gpu();
  return device.is_cpu() ? transport_of_host() : Transport::kGloo;
}

#ifndef CAIRN_WITH_NCCL
c10::intrusive_ptr<Backend> open_nccl(const c10::intrusive_ptr<c10d::Store>&, const Member&,
                                      at::Device) {
  throw UnsupportedError("this cairn was built without NCCL");
}
#endif

#ifndef CAIRN_WITH_MPI
c10::intrusive_ptr<Backend> open_mpi(const Member&) {
  throw UnsupportedError("this cairn was built without MPI");
}
void abandon_mpi() {}
#endif

}  // namespace cairn::dist
