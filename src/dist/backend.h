// What knows c10d's classes by name (backend_nccl.cpp and backend_mpi.cpp those that few builds of
// libtorch have): what differs between versions of libtorch is here.
#pragma once

#include <c10/core/Device.h>
#include <torch/version.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include <chrono>
#include <cstdint>
#include <string>

namespace cairn::dist {

#if TORCH_VERSION_MAJOR >= 2
using Backend = c10d::Backend;
#else
using Backend = c10d::ProcessGroup;
#endif
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

struct MeetingPlace {
  std::string host;
  std::uint16_t port = 0;
  bool is_of_loopback = false;  // 127.0.0.1, whatever `host` says: all ranks are on one machine
};

// Opens c10d's TCPStore. `listens`: this process listens, and all others connect to it. TCPStore
// has no authentication, and listens on all interfaces unless `place` is of loopback. Other
// processes try for `timeout` to connect. Throws what c10d throws; StorageError if the port of
// loopback is taken.
c10::intrusive_ptr<c10d::Store> open_store(const MeetingPlace& place, bool listens,
                                           std::chrono::milliseconds timeout);
c10::intrusive_ptr<c10d::Store> with_prefix(const std::string& prefix,
                                            c10::intrusive_ptr<c10d::Store> store);

// One of those who connect with each other.
struct Member {
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{};
  bool is_one_machine = false;  // then nothing of Gloo's leaves it: 127.0.0.1
};

// Connects to all others, who call it, too. GLOO_SOCKET_IFNAME names the interface, as PyTorch's.
// UnsupportedError when this libtorch was built without Gloo.
c10::intrusive_ptr<Backend> open_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                      const Member& member);

// What tensors of a device travel by.
enum class Transport { kGloo, kNccl, kMpi };

// A GPU's by NCCL where cairn was built with it and CAIRN_CUDA_BACKEND is not "gloo"; the host's by
// MPI when CAIRN_CPU_BACKEND is "mpi"; all others by Gloo. UsageError when a variable asks for what
// this cairn was built without, or for something else.
Transport transport_of(at::Device device);
// As open_gloo(), for tensors on `device`, a GPU that no other of them has.
c10::intrusive_ptr<Backend> open_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                      const Member& member, at::Device device);
// Of all ranks, once in a process. UsageError when MPI numbers them otherwise.
c10::intrusive_ptr<Backend> open_mpi(const Member& member);
// A call of MPI's, if there was one, will not return: the process is to end without waiting for it.
void give_up_mpi();

}  // namespace cairn::dist
