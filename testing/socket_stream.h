// The bytes of a connection to a test server, with or without TLS. A SocketStream does not own the
// socket.
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

  // Returns the number of bytes read. 0 if the connection ended or broke.
  virtual std::size_t read(char* into, std::size_t most) = 0;
  // Reads and drops bytes; returns as read() does.
  virtual std::size_t drop(std::size_t most) = 0;
  virtual bool write(const char* data, std::size_t size) = 0;  // Writes all of it.
};

std::unique_ptr<SocketStream> plain_stream(int socket);

// A server's certificate, used to make streams. Throws std::runtime_error if the files cannot be
// used.
class TlsServer {
 public:
  TlsServer(const std::string& key_file, const std::string& certificate_file);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  // Returns a stream after the handshake. Null if the handshake failed. The stream must not outlive
  // this object.
  std::unique_ptr<SocketStream> stream(int socket) const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace cairn::testing
