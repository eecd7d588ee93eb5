// For a build with a libtorch that has MPI, and with MPI's headers.
#ifndef USE_C10D_MPI
#define USE_C10D_MPI
#endif
// cairn needs neither MPI's C++ interface, which was removed from the standard, nor the library of
// that interface.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1

#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroupMPI.hpp>

#include "cairn/error.h"

#include "dist/backend.h"

namespace cairn::dist {
namespace {

std::atomic<bool> is_given_up = false;

// c10d registers MPI_Finalize() for the end of the process. MPI_Finalize() waits for pending calls
// of MPI and for all other ranks. If the process ends without it, mpirun ends the other ranks, too.
void end_without_finalize(int status, void*) {
  if (!is_given_up) return;
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace

c10::intrusive_ptr<Backend> open_mpi(const Member& member) {
  const auto backend = c10d::ProcessGroupMPI::createProcessGroupMPI();
  on_exit(end_without_finalize, nullptr);  // Registered after c10d's handler, so it runs before it.
  if (backend->getRank() != member.rank || backend->getSize() != member.world_size) {
    throw UsageError("CAIRN_CPU_BACKEND is mpi, and MPI calls rank " + std::to_string(member.rank) +
                     " of " + std::to_string(member.world_size) + " its rank " +
                     std::to_string(backend->getRank()) + " of " +
                     std::to_string(backend->getSize()) +
                     ": start the processes with the mpirun of the MPI that libtorch was built "
                     "with, or leave the variable out");
  }
  return backend;
}

void abandon_mpi() { is_given_up = true; }

}  // namespace cairn::dist
