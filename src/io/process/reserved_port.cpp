#include "io/process/reserved_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "io/file_error.h"

namespace cairn {

ReservedPort::ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!socket_.is_open() ||
      setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(socket_.get(), any, size) != 0 || getsockname(socket_.get(), any, &size) != 0) {
    throw_storage_error(errno, "there is no free port");
  }
  number_ = ntohs(address.sin_port);
}

}  // namespace cairn
