#include "testing/socket_stream.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

namespace cairn::testing {
namespace {

constexpr std::size_t kDroppedAtOnce = std::size_t{256} << 10;

class PlainStream final : public SocketStream {
 public:
  explicit PlainStream(int socket) : socket_(socket) {}

  std::size_t read(char* into, std::size_t most) override {
    return static_cast<std::size_t>(std::max<ssize_t>(recv(socket_, into, most, 0), 0));
  }
  std::size_t drop(std::size_t most) override {
    dropped_.resize(kDroppedAtOnce);
    return read(dropped_.data(), std::min(most, dropped_.size()));
  }
  bool write(const char* data, std::size_t size) override {
    while (size > 0) {
      const ssize_t sent = send(socket_, data, size, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data += sent;
      size -= static_cast<std::size_t>(sent);
    }
    return true;
  }

 private:
  int socket_;
  std::vector<char> dropped_;
};

class TlsStream final : public SocketStream {
 public:
  TlsStream(SSL_CTX* context, int socket) : ssl_(SSL_new(context), SSL_free) {
    if (ssl_ != nullptr) SSL_set_fd(ssl_.get(), socket);
  }
  bool accept() { return ssl_ != nullptr && SSL_accept(ssl_.get()) == 1; }

  std::size_t read(char* into, std::size_t most) override {
    std::size_t got = 0;
    return SSL_read_ex(ssl_.get(), into, most, &got) == 1 ? got : 0;
  }
  std::size_t drop(std::size_t most) override {
    dropped_.resize(kDroppedAtOnce);
    return read(dropped_.data(), std::min(most, dropped_.size()));
  }
  bool write(const char* data, std::size_t size) override {
    std::size_t sent = 0;
    return size == 0 || SSL_write_ex(ssl_.get(), data, size, &sent) == 1;
  }

 private:
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  std::vector<char> dropped_;
};

}  // namespace

std::unique_ptr<SocketStream> plain_stream(int socket) {
  return std::make_unique<PlainStream>(socket);
}

struct TlsServer::Context {
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> ssl{SSL_CTX_new(TLS_server_method()), SSL_CTX_free};
};

TlsServer::TlsServer(const std::string& key_file, const std::string& certificate_file)
    : context_(std::make_unique<Context>()) {
  SSL_CTX* const ssl = context_->ssl.get();
  if (ssl == nullptr || SSL_CTX_use_certificate_chain_file(ssl, certificate_file.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(ssl, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    throw std::runtime_error("no TLS with " + key_file + " and " + certificate_file);
  }
  SSL_CTX_set_read_ahead(ssl, 1);  // One system call reads many records.
  SSL_CTX_set_default_read_buffer_len(ssl, kDroppedAtOnce);
}

TlsServer::~TlsServer() = default;

std::unique_ptr<SocketStream> TlsServer::stream(int socket) const {
  auto stream = std::make_unique<TlsStream>(context_->ssl.get(), socket);
  if (!stream->accept()) return nullptr;
  return stream;
}

}  // namespace cairn::testing
