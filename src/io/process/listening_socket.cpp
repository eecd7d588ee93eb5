#include "io/process/listening_socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "io/file_error.h"

namespace cairn {
namespace {

// The port of this end of a socket; 0 for any other descriptor.
std::uint16_t own_port(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

bool is_listening(int fd) {
  int listens = 0;
  socklen_t size = sizeof listens;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

std::uint64_t inode_of(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

std::uint64_t received_bytes(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

std::vector<int> open_descriptors() {
  std::vector<int> fds;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir("/proc/self/fd"), closedir);
  if (open == nullptr) throw_storage_error(errno, "cannot list /proc/self/fd");
  // "." becomes 0, standard input, which is no socket of a server
  while (const dirent* entry = readdir(open.get()))
    fds.push_back(std::atoi(entry->d_name));
  return fds;
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
  for (const int fd : open_descriptors()) {
    if (fd == own.get() || !is_listening(fd) || own_port(fd) != port) continue;
    if (dup3(own.get(), fd, O_CLOEXEC) == fd) return;
    throw_storage_error(errno, "cannot take over the socket at port " + std::to_string(port));
  }
  throw_storage_error(ENOENT, "no socket of this process listens at port " + std::to_string(port));
}

void prepare_to_listen(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const int bytes = 16 << 10;
  setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

std::vector<AcceptedConnection> accepted_connections(std::uint16_t port) {
  std::vector<AcceptedConnection> all;
  for (const int fd : open_descriptors()) {
    if (own_port(fd) != port || is_listening(fd)) continue;
    all.push_back({.fd = fd, .inode = inode_of(fd), .received = received_bytes(fd)});
  }
  return all;
}

void end_connection(const AcceptedConnection& connection) {
  // Another thread may close the descriptor meanwhile, and its number may be another one's then. A
  // duplicate stays what it is.
  const FileDescriptor own(fcntl(connection.fd, F_DUPFD_CLOEXEC, 0));
  if (own.is_open() && inode_of(own.get()) == connection.inode) shutdown(own.get(), SHUT_RDWR);
}

}  // namespace cairn
