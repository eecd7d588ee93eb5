// Throws errors inside the library, for catch_errors.cpp.
#pragma once

#include <cairn/error.h>
#include <cairn/storage/object_store_checks.h>

#include <string>
#ifdef WITH_TRAIN
#include <cairn/dist/dist.h>
#endif

namespace CAIRN_PUBLIC cairn {

// Throws the class of that name, with that name as its message. Returns if it knows no such class.
void throw_error(const std::string& name);

}  // namespace cairn
