#include "io/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "io/file_error.h"

namespace cairn {
namespace {

// So much can be mapped wherever there is any address left.
constexpr std::size_t kLargestForSure = std::size_t{1} << 40;

// A fault maps up to a whole large folio, so the first one in a piece maps again what has been let
// go of before it. (Linux since 6.18; before, at most 64 KiB.)
constexpr std::size_t kLargestFolio = std::size_t{2} << 20;

// `mapping` is where the file's bytes start. Rounds down at both ends: in a stream, the page that
// holds the start was used up by the piece before, and the one that holds the end is about to be
// used.
void release_pages(ByteView bytes, const void* mapping) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // A mapping begins with a page.
  auto* const first = static_cast<std::byte*>(const_cast<void*>(mapping));
  const auto start = static_cast<std::size_t>(bytes.data() - first);
  const std::size_t begin = (start - std::min(start, kLargestFolio)) / page * page;
  const std::size_t end = (start + bytes.size()) / page * page;
  // A wish: where it fails, memory is used for longer.
  if (end > begin) madvise(first + begin, end - begin, MADV_DONTNEED);
}

// One mapping. The handler reads it while others come and go: `begin` is 0 while it changes, and
// objects are used again, never deleted.
struct Mapping {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<std::uintptr_t> unreadable_from = 0;  // an address; 0 where all could be read
  Mapping* next = nullptr;
  // Under the mutex of Mappings only.
  std::string name = {};
  std::function<void()> check_unchanged = nullptr;  // null: a scratch file

  bool is_scratch() const { return check_unchanged == nullptr; }
  bool holds(std::uintptr_t address) const {
    const std::uintptr_t first = begin;
    return first != 0 && address >= first && address < end && first == begin;
  }
};

class Mappings {
 public:
  Mapping* add(const void* start, std::size_t size, const std::string& name,
               std::function<void()> check_unchanged) {
    const std::lock_guard lock(mutex_);
    Mapping* mapping = free_.empty() ? grow() : free_.back();
    if (!free_.empty()) free_.pop_back();
    mapping->name = name;
    mapping->check_unchanged = std::move(check_unchanged);
    mapping->unreadable_from = 0;
    mapping->end = reinterpret_cast<std::uintptr_t>(start) + size;
    mapping->begin = reinterpret_cast<std::uintptr_t>(start);
    return mapping;
  }

  void remove(Mapping* mapping) {
    const std::lock_guard lock(mutex_);
    if (is_guarded_) {
      if (const auto failure = failure_of(*mapping)) {
        const bool had_zeros = mapping->unreadable_from != 0;
        gone_.push_back({mapping->name, mapping->is_scratch(), had_zeros, failure});
      }
    }
    mapping->begin = 0;
    mapping->check_unchanged = nullptr;
    free_.push_back(mapping);
  }

  void check(const std::string& path, bool only_pages = false) {
    const std::lock_guard lock(mutex_);
    for (const Mapping* mapping = newest_; mapping != nullptr; mapping = mapping->next) {
      if (mapping->begin == 0 || !concerns(mapping->name, mapping->is_scratch(), path)) continue;
      if (only_pages && mapping->unreadable_from == 0) continue;
      if (const auto failure = failure_of(*mapping)) std::rethrow_exception(failure);
    }
    // A file that was written to behind its last reader is nothing to those who ask about all.
    const bool only_zeros = only_pages || path.empty();
    const auto found = std::find_if(gone_.begin(), gone_.end(), [&](const Gone& gone) {
      return (!only_zeros || gone.had_zeros) && concerns(gone.name, gone.is_scratch, path);
    });
    if (found == gone_.end()) return;
    const std::exception_ptr failure = found->failure;
    gone_.erase(found);
    std::rethrow_exception(failure);
  }

  void set_guarded(bool is_guarded) {
    const std::lock_guard lock(mutex_);
    is_guarded_ = is_guarded;
    if (!is_guarded) gone_.clear();
  }

  // For the handler: waits for nothing and allocates nothing.
  Mapping* find(std::uintptr_t address) const {
    Mapping* mapping = newest_;
    while (mapping != nullptr && !mapping->holds(address))
      mapping = mapping->next;
    return mapping;
  }

 private:
  struct Gone {
    std::string name;
    bool is_scratch;
    bool had_zeros;
    std::exception_ptr failure;
  };

  // What check() throws of it; null: nothing.
  static std::exception_ptr failure_of(const Mapping& mapping) {
    try {
      if (const std::uintptr_t from = mapping.unreadable_from; from != 0) {
        throw_read_error(EIO, "cannot read " + mapping.name + " at byte " +
                                  std::to_string(from - mapping.begin));
      }
      if (mapping.check_unchanged) mapping.check_unchanged();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  static bool concerns(const std::string& name, bool is_scratch, const std::string& path) {
    return path.empty() || is_scratch || name == path || name.starts_with(path + "/");
  }

  Mapping* grow() {
    all_.push_back(std::make_unique<Mapping>());
    all_.back()->next = newest_;
    newest_ = all_.back().get();
    return newest_;
  }

  std::mutex mutex_;
  std::atomic<Mapping*> newest_ = nullptr;
  std::vector<std::unique_ptr<Mapping>> all_;
  std::vector<Mapping*> free_;
  bool is_guarded_ = false;
  std::vector<Gone> gone_;  // mappings that ended while a GuardedReads lives, unchecked
};

// Never destroyed: mappings may outlive every static object.
Mappings& mappings() {
  static auto* const all = new Mappings;
  return *all;
}

std::atomic<int> guards = 0;
thread_local int guards_here = 0;
struct sigaction handler_before = {};

// Step 3. Only calls that a signal handler may make.
bool put_zeros(void* place) {
  if (guards == 0) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  Mapping* const mapping = mappings().find(address);
  if (mapping == nullptr) return false;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t from = address / page * page;
  auto* const first_page = static_cast<std::byte*>(place) - (address - from);
  const std::uintptr_t end = mapping->end;
  if (mmap(first_page, end - from, PROT_READ,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
    return false;
  }
  std::uintptr_t first = mapping->unreadable_from;
  while ((first == 0 || from < first) &&
         !mapping->unreadable_from.compare_exchange_weak(first, from)) {
  }
  return true;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (put_zeros(info->si_addr)) {
    errno = error;
  } else if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    sigaction(signal, &handler_before,
              nullptr);  // the instruction fails again, and ends the process
  }
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    mappings();
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &handler_before);
  });
}

}  // namespace

SharedBytes map_descriptor(int fd, std::size_t size, const std::string& name,
                           std::function<void()> check_unchanged) {
  if (size == 0) return {};
  void* start = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) {
    const int error = errno;
    // A mapping takes addresses and no memory: of such sizes that is the file's own fault.
    if (error == ENOMEM && size > kLargestForSure) {
      throw UnsupportedError(name + " is larger than this process can map");
    }
    throw_storage_error(error, "cannot map " + name);
  }
  Mapping* const mapping = mappings().add(start, size, name, std::move(check_unchanged));
  return {{static_cast<const std::byte*>(start), size},
          std::shared_ptr<const void>(start,
                                      [size, mapping](void* p) {
                                        mappings().remove(mapping);
                                        munmap(p, size);
                                      }),
          release_pages};
}

GuardedReads::GuardedReads() {
  handle_bus_errors();
  if (guards++ == 0) mappings().set_guarded(true);
  ++guards_here;
}
GuardedReads::~GuardedReads() {
  --guards_here;
  if (--guards == 0) mappings().set_guarded(false);
}

bool reads_are_guarded() { return guards_here != 0; }

void check_mapped_reads(const std::string& path) { mappings().check(path); }
void check_mapped_pages() { mappings().check({}, /*only_pages=*/true); }

}  // namespace cairn
