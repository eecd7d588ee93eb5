// A place where processes of one machine meet: a folder with a file for each key. The folder
// outlives the processes. A process that is killed while it holds the lock blocks no other process.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/ranks/meeting.h"

namespace cairn::testing {

class FileMeeting final : public Meeting {
 public:
  // `folder` must exist.
  explicit FileMeeting(std::string folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value) override {
    const std::string path = path_of(key);
    const std::string built = path + "." + std::to_string(getpid());
    std::ofstream(built, std::ios::binary) << value;
    std::filesystem::rename(built, path);
  }
  std::optional<std::string> find(const std::string& key) override {
    std::ifstream file(path_of(key), std::ios::binary);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                      const std::string& to) override {
    const Lock lock(folder_ + "/lock");
    auto stands = find(key);
    if (!stands || *stands != from) return stands;
    set(key, to);
    return to;
  }
  void remove(const std::string& key) override { std::filesystem::remove(path_of(key)); }

 private:
  // The kernel releases the lock when the process that holds it dies.
  class Lock {
   public:
    explicit Lock(const std::string& path)
        : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
      if (file_ < 0 || flock(file_, LOCK_EX) != 0) throw MeetingError("no lock: " + path);
    }
    ~Lock() { close(file_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    const int file_;
  };

  std::string path_of(std::string key) const {
    for (char& c : key) {
      if (c == '/') c = '-';
    }
    return folder_ + "/key-" + key;
  }

  const std::string folder_;
};

}  // namespace cairn::testing
