// Which multiprocessor runs a block and where its time goes, in the traced build
// (FLASHDEC_TRACE) alone: in the plain one, mark() is nothing.
#pragma once
#include "params.cuh"

namespace flashdec {

// Points of a block's life, in their order; internal/cuda/trace.go numbers them alike.
// A block passes those of a band where it merges one, and kArrived where it merges
// the result.
enum Mark {
  kStarted,
  kFirstTile,
  kWalked,
  kStored,  // its own partial state
  kBandArrived,
  kBandGathered,
  kBandStored,
  kArrived,
  kGathered,
  kDone,
  kMarks
};

// A mark of thread 0: nanoseconds of the GPU's clock, cycles of the multiprocessor's.
struct alignas(16) Stamp {
  uint64_t time;
  uint32_t cycles;
  uint32_t multiprocessor;
};

__device__ __forceinline__ void mark(const Params &p, Mark at) {
#ifdef FLASHDEC_TRACE
  if (threadIdx.x != 0 || !p.trace) return;
  Stamp s;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(s.time));
  asm volatile("mov.u32 %0, %%clock;" : "=r"(s.cycles));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(s.multiprocessor));
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  static_cast<Stamp *>(p.trace)[block * kMarks + at] = s;
#endif
}

}  // namespace flashdec
