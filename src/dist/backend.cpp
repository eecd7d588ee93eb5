// Debian's libtorch, and PyTorch's own, have Gloo; a build that is known to lack it sets this.
#if !defined(CAIRN_WITHOUT_GLOO) && !defined(USE_C10D_GLOO)
#define USE_C10D_GLOO
#endif

#include "dist/backend.h"

#include <stdlib.h>
#ifndef CAIRN_WITHOUT_GLOO
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

#include "cairn/error.h"

namespace cairn::dist {

#ifdef CAIRN_WITHOUT_GLOO

namespace {
// Before anybody waits for anybody.
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

c10::intrusive_ptr<c10d::Store> open_store(const MeetingPlace& place, bool listens,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = listens;
  options.waitWorkers = false;  // who is missing is found out by name, see group.cpp
  options.timeout = timeout;
  return c10::make_intrusive<c10d::TCPStore>(place.host, options);
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

bool uses_nccl(at::Device device) {
  const char* const variable = getenv("CAIRN_CUDA_BACKEND");
  const std::string wanted = variable == nullptr ? "" : variable;
  if (!wanted.empty() && wanted != "nccl" && wanted != "gloo") {
    throw UsageError("CAIRN_CUDA_BACKEND is '" + wanted +
                     "'; it is nccl, the default where cairn was built with it, or gloo");
  }
#ifdef CAIRN_WITH_NCCL
  return device.is_cuda() && wanted != "gloo";
#else
  if (device.is_cuda() && wanted == "nccl") {
    throw UsageError(
        "CAIRN_CUDA_BACKEND is nccl, and this cairn was built without it: build it with a libtorch "
        "for CUDA and NCCL's headers (Debian: libnccl-dev), or leave the variable out: then what "
        "GPUs send goes through host memory");
  }
  return false;
#endif
}

#ifndef CAIRN_WITH_NCCL
c10::intrusive_ptr<Backend> open_nccl(const c10::intrusive_ptr<c10d::Store>&, const Member&,
                                      at::Device) {
  throw UnsupportedError("this cairn was built without NCCL");
}
#endif

}  // namespace cairn::dist
