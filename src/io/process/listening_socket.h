// Listening TCP sockets, for servers of other libraries that cannot be told an address.
#pragma once

#include <cstdint>

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

// Lets a socket that is not bound yet take the address of a server that has just ended, and not
// that of one that lives.
void allow_address_again(int socket);

}  // namespace cairn
