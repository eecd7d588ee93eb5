// The bytes of a connection to a server of the tests, with TLS or without. Takes no ownership of
// the socket.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace cairn::testing {

class SocketStream {
 public:
  SocketStream() = default;
  virtual ~SocketStream() = default;
  SocketStream(const SocketStream&) = delete;
  SocketStream& operator=(const SocketStream&) = delete;

  // How many came; 0 at the end of the connection, or when it broke.
  virtual std::size_t read(char* into, std::size_t most) = 0;
  // The same of bytes that nobody wants.
  virtual std::size_t drop(std::size_t most) = 0;
  virtual bool write(const char* data, std::size_t size) = 0;  // all of it
};

std::unique_ptr<SocketStream> plain_stream(int socket);

// A server's certificate, with which streams are made. std::runtime_error when the files cannot be
// used.
class TlsServer {
 public:
  TlsServer(const std::string& key_file, const std::string& certificate_file);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  // With the handshake done; null when it failed. Must not outlive this.
  std::unique_ptr<SocketStream> stream(int socket) const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace cairn::testing
