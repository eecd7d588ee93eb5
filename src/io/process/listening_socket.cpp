#include "io/process/listening_socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "io/file_error.h"

namespace cairn {
namespace {

// The port at which the socket listens; 0 for any other descriptor.
std::uint16_t listening_port(int fd) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return 0;
  sockaddr_storage address = {};
  size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

FileDescriptor listen_at_loopback(std::uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const sockaddr_in address = loopback(port);
  if (!socket.is_open() ||
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    throw_storage_error(errno, "cannot listen at 127.0.0.1:" + std::to_string(port));
  }
  return socket;
}

bool is_listened_at_loopback(std::uint16_t port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void replace_listener(std::uint16_t port, const FileDescriptor& own) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir("/proc/self/fd"), closedir);
  while (const dirent* entry = open == nullptr ? nullptr : readdir(open.get())) {
    // "." becomes 0, standard input, which does not listen
    const int fd = std::atoi(entry->d_name);
    if (fd == own.get() || listening_port(fd) != port) continue;
    if (dup3(own.get(), fd, O_CLOEXEC) == fd) return;
    throw_storage_error(errno, "cannot take over the socket at port " + std::to_string(port));
  }
  throw_storage_error(ENOENT, "no socket of this process listens at port " + std::to_string(port));
}

void allow_address_again(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

}  // namespace cairn
