// An object that each thread has for itself, for code that runs when memory may be short. glibc
// ends the process if it has no memory to note the destructor of a `thread_local` object. So
// `thread_local` is safe only for objects with trivial destructors.
#pragma once

#include <pthread.h>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace cairn {

// The object is made when a thread first asks for it. It is destroyed when that thread ends, after
// the thread's thread_local objects. The main thread's object stays until the process ends. Make
// the PerThread a static object.
template <class T>
class PerThread {
 public:
  PerThread() {
    if (pthread_key_create(&key_, end) != 0) throw std::bad_alloc();
  }
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  // This thread's object. Throws std::bad_alloc, and what T's constructor throws.
  T& here() const {
    if (void* const found = pthread_getspecific(key_)) return *static_cast<T*>(found);
    auto made = std::make_unique<T>();
    if (pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return *made.release();
  }

 private:
  static void end(void* object) { delete static_cast<T*>(object); }

  pthread_key_t key_ = 0;
};

// `kBytes` bytes for each thread, zero at first.
template <std::size_t kBytes>
class BytesPerThread {
 public:
  std::span<std::byte> here() const { return blocks_.here().bytes; }

 private:
  struct Block {
    std::array<std::byte, kBytes> bytes = {};
  };
  PerThread<Block> blocks_;
};

}  // namespace cairn
