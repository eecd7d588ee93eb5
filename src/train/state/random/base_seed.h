// Python's DataLoader draws an int64 from torch's CPU generator whenever an iteration over it
// begins (the base seed of its workers, even without workers). cairn's loops draw the same number
// at the same points. So dropout and everything else that uses the generator gets Python's numbers
// in every epoch:
//
//  1. A training run begins: once for each evaluator, since Composer briefly iterates their
//     loaders.
//  2. An epoch of training begins: after epoch_start, before the first before_dataloader.
//  3. An evaluation or a prediction begins: after eval_start or predict_start.
//
// Seeking to a position inside an epoch draws nothing: the generator is restored (data_position.h).
#pragma once

namespace cairn {

// Advances torch's CPU generator by one such draw.
void draw_base_seed();

}  // namespace cairn
