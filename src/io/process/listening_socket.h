// TCP sockets of servers of other libraries, which cannot be told an address or a limit.
#pragma once

#include <cstdint>
#include <vector>

#include "io/file_descriptor.h"

namespace cairn {

// Listens at 127.0.0.1, at a port that may be a ReservedPort. Throws StorageError.
FileDescriptor listen_at_loopback(std::uint16_t port);

// Whether a socket listens at that port of 127.0.0.1. That socket gets a connection, which ends at
// once.
bool is_listened_at_loopback(std::uint16_t port);

// Finds the socket of this process that listens at `port`, and makes its descriptor a duplicate of
// `own`. From then on, code that accepts connections at the descriptor gets the connections of
// `own`. Throws StorageError if there is no such socket.
void replace_listener(std::uint16_t port, const FileDescriptor& own);

// For a socket that is not bound yet: it may take the address of a server that has just ended, and
// not that of one that lives. Its connections receive at most some KiB before they are read.
void prepare_to_listen(int socket);

// A connection that this process has accepted and not closed.
struct AcceptedConnection {
  int fd = -1;
  std::uint64_t inode = 0;     // which no other socket of the machine has
  std::uint64_t received = 0;  // bytes
};

// The connections to `port` of this process. Throws StorageError.
std::vector<AcceptedConnection> accepted_connections(std::uint16_t port);

// Ends a connection at once, if it is still there: its reader finds the end.
void end_connection(const AcceptedConnection& connection);

}  // namespace cairn
