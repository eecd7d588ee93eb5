// All code that knows c10d's classes by name, so differences between versions of libtorch are here.
// backend_nccl.cpp and backend_mpi.cpp have the classes that few builds of libtorch contain.
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
  bool is_of_loopback = false;  // Use 127.0.0.1 instead of `host`: one machine has all ranks.
};

// Opens c10d's TCPStore. `listens`: this process listens, and all others connect to it. TCPStore
// has no authentication, and listens on all interfaces unless `place.is_of_loopback`. Other
// processes try for `timeout` to connect. Throws c10d's exceptions, and StorageError if the port at
// 127.0.0.1 is taken.
c10::intrusive_ptr<c10d::Store> open_store(const MeetingPlace& place, bool listens,
                                           std::chrono::milliseconds timeout);
c10::intrusive_ptr<c10d::Store> with_prefix(const std::string& prefix,
                                            c10::intrusive_ptr<c10d::Store> store);

// One of the processes that connect with each other.
struct Member {
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{};
  bool is_one_machine = false;  // Gloo then uses only 127.0.0.1.
};

// Throws UsageError if GLOO_SOCKET_IFNAME names no interface of this machine: Gloo finds this out
// when the other ranks wait, and no rank would be told.
void check_interface();

// Connects to all other members, which must call this function, too. GLOO_SOCKET_IFNAME names the
// interface, as in PyTorch. Throws UnsupportedError if this libtorch was built without Gloo.
c10::intrusive_ptr<Backend> open_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                      const Member& member);

// The library that sends tensors of a device.
enum class Transport { kGloo, kNccl, kMpi };

// Chooses the library. For a GPU it is NCCL, if cairn was built with NCCL and CAIRN_CUDA_BACKEND is
// not "gloo". For the host it is MPI, if CAIRN_CPU_BACKEND is "mpi". Otherwise it is Gloo. Throws
// UsageError if a variable has an unknown value, or names a library that this cairn was built
// without.
Transport transport_of(at::Device device);
// As open_gloo(), for tensors on `device`, a GPU that no other member uses.
c10::intrusive_ptr<Backend> open_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                      const Member& member, at::Device device);
// Connects all ranks. Call it once in a process. Throws UsageError if MPI numbers the ranks
// differently.
c10::intrusive_ptr<Backend> open_mpi(const Member& member);
// Call it if a pending call of MPI will not return. The process then ends without waiting for that
// call.
void abandon_mpi();

}  // namespace cairn::dist
