// The core of cairn, without libtorch: saving, loading, verifying, finding and converting
// checkpoints of any origin. Link cairn::core. With libtorch include cairn/cairn.h, which includes
// this header.
#pragma once

#include "cairn/bytes.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/checkpoint/copy.h"
#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/checkpoint/names.h"
#include "cairn/checkpoint/sharded.h"
#include "cairn/error.h"
#include "cairn/exit_code.h"
#include "cairn/format/safetensors.h"
#include "cairn/format/torch_file.h"
#include "cairn/storage/azure.h"
#include "cairn/storage/gcs.h"
#include "cairn/storage/libcloud.h"
#include "cairn/storage/object_store.h"
#include "cairn/storage/oci.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/sftp.h"
#include "cairn/storage/stores.h"
#include "cairn/tensor.h"
#include "cairn/time.h"
#include "cairn/value.h"
