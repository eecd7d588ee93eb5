// Arrays as numpy.load() reads them, format version 1.0:
//
//   offset  size  content
//   0       6     "\x93NUMPY"
//   6       2     1, 0: the version
//   8       2     size of the header, little-endian
//   10      ...   a Python dict as text:
//                 {'descr': '<f4', 'fortran_order': False, 'shape': (16, 8), }
//                 then spaces and a line feed, so that the elements start at a multiple of 64
//   ...           the elements, little-endian, in C order
#pragma once

#include "cairn/bytes.h"
#include "cairn/value.h"

namespace cairn::cli {

// Writes a tensor or NdArray as a stream. Dtypes that numpy lacks are widened if a numpy type holds
// all their numbers: bfloat16 and float8 to float32, complex32 to complex64. Throws
// UnsupportedError for quantized, packed and bits dtypes, UsageError for another Value.
void write_npy(const Value& value, ByteSink& sink);

}  // namespace cairn::cli
