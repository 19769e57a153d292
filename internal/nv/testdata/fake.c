// A stand-in for libcuda.so.1 that lets the binding be tested without a GPU:
// device memory is malloc'ed, a stream is done at once, launches are recorded.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
typedef uint64_t P;

static size_t used;
enum { TOTAL = 1 << 20 };

R cuInit(unsigned flags) { return getenv("FAKE_CUDA_NO_DEVICE") ? 100 : 0; }
R cuDriverGetVersion(int *v) { *v = 13000; return 0; }
R cuGetErrorName(R e, const char **s) {
  if (e == 2) { *s = "CUDA_ERROR_OUT_OF_MEMORY"; return 0; }
  if (e == 100) { *s = "CUDA_ERROR_NO_DEVICE"; return 0; }
  if (e == 500) { *s = "CUDA_ERROR_NOT_FOUND"; return 0; }
  *s = 0;
  return 1;
}
R cuGetErrorString(R e, const char **s) {
  if (e == 2) { *s = "out of memory"; return 0; }
  if (e == 100) { *s = "no CUDA-capable device is detected"; return 0; }
  if (e == 500) { *s = "named symbol not found"; return 0; }
  *s = 0;
  return 1;
}
R cuDeviceGetCount(int *n) { *n = 1; return 0; }
R cuDeviceGet(int *d, int i) { *d = i + 40; return 0; }
R cuDeviceGetName(char *s, int n, int d) { snprintf(s, n, "Fake %d", d); return 0; }
R cuDeviceGetAttribute(int *v, int a, int d) { *v = a * 1000 + d; return 0; }
static int retained;
R cuDevicePrimaryCtxRetain(void **c, int d) { retained++; *c = (void *)0x77; return 0; }
R cuDevicePrimaryCtxRelease_v2(int d) { return retained-- > 0 ? 0 : 201; }
R cuCtxSetCurrent(void *c) { return c == (void *)0x77 && retained > 0 ? 0 : 201; }
R cuCtxSynchronize(void) { return 0; }
R cuMemGetInfo_v2(size_t *f, size_t *t) { *f = TOTAL - used; *t = TOTAL; return 0; }
// Before memory stands its size.
enum { BEFORE = 256 };
R cuMemAlloc_v2(P *p, size_t n) {
  if (used + n > TOTAL) return 2;
  used += n;
  size_t *at = malloc(BEFORE + n);
  *at = n;
  *p = (P)at + BEFORE;
  return 0;
}
R cuMemFree_v2(P p) {
  if (!p) return 0;
  used -= *(size_t *)(p - BEFORE);
  free((void *)(p - BEFORE));
  return 0;
}
R cuMemcpyHtoDAsync_v2(P d, const void *s, size_t n, void *q) { memcpy((void *)d, s, n); return 0; }
R cuMemcpyDtoHAsync_v2(void *d, P s, size_t n, void *q) { memcpy(d, (void *)s, n); return 0; }
R cuMemcpyDtoDAsync_v2(P d, P s, size_t n, void *q) { memcpy((void *)d, (void *)s, n); return 0; }
R cuMemsetD8Async(P p, unsigned char v, size_t n, void *q) { memset((void *)p, v, n); return 0; }
R cuMemsetD32Async(P p, unsigned v, size_t n, void *q) {
  for (size_t i = 0; i < n; i++) ((unsigned *)p)[i] = v;
  return 0;
}
R cuModuleLoadData(void **m, const void *image) { *m = (void *)image; return 0; }
R cuModuleUnload(void *m) { return 0; }
R cuModuleGetFunction(void **f, void *m, const char *name) {
  if (strcmp(name, "sum")) return 500;
  *f = (void *)0x99;
  return 0;
}
R cuFuncSetAttribute(void *f, int a, int v) { return 0; }
R cuFuncGetAttribute(int *v, int a, void *f) { *v = a; return 0; }
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int threads, size_t shared) {
  *n = 2048 / threads;
  return 0;
}

typedef struct {
  unsigned id;
  char pad[4];
  union { char pad[64]; struct { unsigned x, y, z; } cluster; int overlap; } value;
} Attribute;
typedef struct {
  unsigned gx, gy, gz, bx, by, bz, shared;
  void *stream;
  Attribute *attrs;
  unsigned count;
} Config;
typedef struct { P out; int a, b; } Params;

// The fake kernel "sum" writes a + b and the geometry that it was given.
R cuLaunchKernelEx(const Config *c, void *f, void **params, void **extra) {
  Params *p = params[0];
  int *out = (int *)p->out;
  out[0] = p->a + p->b;
  out[1] = c->gx;
  out[2] = c->gy;
  out[3] = c->bx;
  out[4] = c->shared;
  out[5] = c->count && c->attrs[0].id == 4 ? c->attrs[0].value.cluster.x : 0;
  out[6] = c->stream == (void *)0x55;
  out[7] = c->count > 1 && c->attrs[1].id == 6 ? c->attrs[1].value.overlap : 0;
  return 0;
}

R cuStreamCreate(void **s, unsigned flags) { *s = (void *)0x55; return flags == 1 ? 0 : 1; }
R cuStreamDestroy_v2(void *s) { return 0; }
R cuStreamSynchronize(void *s) { return 0; }
R cuStreamQuery(void *s) { return 600; }
R cuStreamWaitEvent(void *s, void *e, unsigned flags) { return 0; }
R cuStreamBeginCapture_v2(void *s, int mode) { return 0; }
R cuStreamEndCapture(void *s, void **g) { *g = (void *)0x66; return 0; }
R cuEventCreate(void **e, unsigned flags) { *e = (void *)0x44; return 0; }
R cuEventDestroy_v2(void *e) { return 0; }
R cuEventRecord(void *e, void *s) { return 0; }
R cuEventSynchronize(void *e) { return 0; }
R cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 1.5f; return 0; }
R cuGraphInstantiateWithFlags(void **x, void *g, unsigned long long flags) { *x = (void *)0x67; return g == (void *)0x66 ? 0 : 1; }
R cuGraphLaunch(void *x, void *s) { return x == (void *)0x67 && s == (void *)0x55 ? 0 : 1; }
R cuGraphDestroy(void *g) { return 0; }
R cuGraphExecDestroy(void *x) { return 0; }
