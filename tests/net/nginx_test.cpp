// Loads checkpoints from a real web server, over TLS. Run by tests/net/with_nginx.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "storage/place.h"
#include "testing/environment_variable.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBytes = 40 << 20;

sockaddr_in of_loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// Forwards connections to a port of this machine. After a given number of returned bytes it cuts
// all connections, once.
class CuttingProxy {
 public:
  CuttingProxy(int to, std::size_t cut_behind) : to_(to), cut_behind_(cut_behind) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = of_loopback(0);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, any, size) != 0 || listen(listener_, 64) != 0 ||
        getsockname(listener_, any, &size) != 0) {
      throw std::runtime_error("no proxy can be started");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~CuttingProxy() {
    is_stopping_ = true;
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    cut();
    for (std::thread& thread : threads_)
      thread.join();
    close(listener_);
  }
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  int port() const { return port_; }
  bool has_cut() const { return has_cut_; }

 private:
  void accept_all() {
    while (!is_stopping_) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = of_loopback(to_);
      if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        close(client);
        close(server);
        continue;
      }
      const std::scoped_lock lock(mutex_);
      sockets_.insert(sockets_.end(), {client, server});
      threads_.emplace_back([this, client, server] { pass(client, server); });
    }
  }

  void pass(int client, int server) {
    std::vector<char> buffer(64 << 10);
    pollfd both[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    for (bool is_open = true; is_open && poll(both, 2, -1) > 0;) {
      for (const int from : {0, 1}) {
        if (!is_open || both[from].revents == 0) continue;
        const ssize_t got = recv(both[from].fd, buffer.data(), buffer.size(), 0);
        is_open = got > 0 && send_all(both[1 - from].fd, buffer.data(), got);
        if (is_open && from == 1) count(static_cast<std::size_t>(got));
      }
    }
    const std::scoped_lock lock(mutex_);
    for (const int socket : {client, server}) {
      std::erase(sockets_, socket);
      close(socket);
    }
  }

  static bool send_all(int socket, const char* data, ssize_t size) {
    while (size > 0) {
      const ssize_t sent = send(socket, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data += sent;
      size -= sent;
    }
    return true;
  }

  void count(std::size_t bytes) {
    const std::size_t before = passed_.fetch_add(bytes);
    if (before < cut_behind_ && before + bytes >= cut_behind_) {
      has_cut_ = true;
      cut();
    }
  }

  void cut() {
    const std::scoped_lock lock(mutex_);
    for (const int socket : sockets_)
      shutdown(socket, SHUT_RDWR);
  }

  const int to_;
  const std::size_t cut_behind_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<bool> has_cut_ = false;
  std::atomic<std::size_t> passed_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

class NginxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (getenv("CAIRN_NGINX_URL") == nullptr) GTEST_SKIP() << "tests/net/with_nginx starts one";
    url_ = getenv("CAIRN_NGINX_URL");
    root_ = getenv("CAIRN_NGINX_ROOT");
  }
  void put(const std::string& name, const std::string& bytes) const {
    testing::write_file(root_ + "/" + name, bytes);
  }
  static std::string read(const std::string& place) {
    return std::string(as_text(read_all(*store_of(place, nullptr)->open(place)).view));
  }
  int port() const { return std::stoi(url_.substr(url_.rfind(':') + 1)); }

  std::string url_;
  std::string root_;
};

TEST_F(NginxTest, ACheckpointIsLoadedInRanges) {
  save(testing::sample_checkpoint(5), root_ + "/a.pt");
  EXPECT_EQ(testing::batch_of_sample(load(url_ + "/a.pt")), 5);
  EXPECT_TRUE(verify(url_ + "/moved/a.pt", Verify::kFull).ok()) << "redirected";
  EXPECT_THROW(load(url_ + "/none.pt"), NotFoundError);
  const std::string bytes = testing::pattern(kBytes);
  put("big", bytes);
  EXPECT_TRUE(read(url_ + "/big") == bytes);
  EXPECT_TRUE(read(url_ + "/without-ranges/big") == bytes);
  put("empty", "");
  EXPECT_EQ(read(url_ + "/empty"), "");
}

TEST_F(NginxTest, AConnectionThatIsCutAtNineTenthsGoesOn) {
  const std::string bytes = testing::pattern(kBytes);
  put("big", bytes);
  CuttingProxy proxy(port(), kBytes / 10 * 9);
  EXPECT_TRUE(read("https://localhost:" + std::to_string(proxy.port()) + "/big") == bytes);
  EXPECT_TRUE(proxy.has_cut());
}

TEST_F(NginxTest, AFileThatIsReplacedIsNotMixed) {
  put("changing", testing::pattern(kBytes));
  const std::string place = url_ + "/changing";
  const auto source = store_of(place, nullptr)->open(place);
  put("changing", "something else");
  EXPECT_THAT(testing::message_of<StorageError>([&] { read_all(*source); }),
              HasSubstr("was replaced"));
}

TEST_F(NginxTest, AnotherAuthorityIsRefused) {
  const testing::EnvironmentVariable without("SSL_CERT_FILE", nullptr);
  EXPECT_THAT(testing::message_of<StorageError>([&] { read(url_ + "/a.pt"); }),
              HasSubstr("certificate"));
}

}  // namespace
}  // namespace cairn
