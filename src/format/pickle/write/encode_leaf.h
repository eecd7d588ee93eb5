// Writes objects without items, as CPython does under protocol 2.
#pragma once

#include <complex>

#include "format/pickle/write/pickler.h"

namespace cairn::pickle {

void encode_complex(Pickler& out, const std::complex<double>& value);
void encode_timedelta(Pickler& out, const TimeDelta& value);
void encode_size(Pickler& out, const Size& value);
void encode_device(Pickler& out, const Device& value);

void encode_constant(Pickler& out, const TorchConstant& value);

// Returns the memo number.
std::uint32_t encode_bytes(Pickler& out, const Bytes& value);

// Write an array or a scalar as numpy does, under the module name that it gives. encode_array()
// returns the memo number.
std::uint32_t encode_array(Pickler& out, const NdArray& array);
void encode_scalar(Pickler& out, const NumpyScalar& scalar);

}  // namespace cairn::pickle
