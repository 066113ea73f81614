// A CUDA device made of host memory: what CuPy calls of CUDA's runtime and driver.
//
// Work is done when it is asked for, so streams and events have nothing to wait for; they are checked for belonging to
// the right device. Every copy must lie within what was allocated, and every block is fenced: by a pattern that is
// looked at when the block is freed, or, with EMULATED_GUARD, by a page that may be neither read nor written.
//
// EMULATED_DEVICES  how many devices there are; 1
// EMULATED_MEMORY   bytes of each; 4 GiB
// EMULATED_GUARD    a block ends at a page that nobody may touch, and CuPy pools none
// EMULATED_TRACE    each launch is printed
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>

#define OK(name, ...) cudaError_t name(__VA_ARGS__) { return cudaSuccess; }
#define DRIVER_OK(name, ...) CUresult name(__VA_ARGS__) { return CUDA_SUCCESS; }

namespace {

constexpr size_t PAGE = 4096, FENCE = 4096, ALIGNMENT = 512, SHARED = 1 << 20;
constexpr int VERSION = 13000, FENCED = 0xA5, UNWRITTEN = 0xFF; // what was never written reads as NaN

size_t setting(const char* name, size_t otherwise) {
    const char* value = getenv(name);
    return value ? strtoull(value, nullptr, 10) : otherwise;
}
int devices() {
    static const int number = static_cast<int>(setting("EMULATED_DEVICES", 1));
    return number;
}
size_t capacity() {
    static const size_t bytes = setting("EMULATED_MEMORY", size_t{4} << 30);
    return bytes;
}
bool guarded() {
    static const bool on = getenv("EMULATED_GUARD");
    return on;
}

struct Block { size_t size; int device; bool host; char* base; size_t mapped; };
struct Stream { int device; };
struct Event { int device; double at; };
struct Link { std::string text; };
struct Module { void* library; };
typedef const char* (*Kernel)(const unsigned* sizes, size_t dynamic, char* shared, void** parameters); // null, or why
struct Function { Kernel run; std::string name; };

std::recursive_mutex access_to_all;
typedef std::lock_guard<std::recursive_mutex> Locked;
std::map<uintptr_t, Block> blocks;
std::map<int, size_t> used;
std::map<std::string, long> counts;
thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;
const char* (*translate)(const char* ptx) = nullptr;

cudaError_t failed(cudaError_t error, const char* why = nullptr) {
    if (why) fprintf(stderr, "emulated: %s\n", why);
    return last = error;
}
CUresult refused(CUresult error, const char* why) {
    fprintf(stderr, "emulated: %s\n", why);
    return error;
}
void count(const char* event) {
    Locked locked(access_to_all);
    ++counts[event];
}

// ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────

std::map<uintptr_t, Block>::iterator block_of(const void* pointer) {
    auto after = blocks.upper_bound(reinterpret_cast<uintptr_t>(pointer));
    if (after == blocks.begin()) return blocks.end();
    const auto found = std::prev(after);
    return reinterpret_cast<uintptr_t>(pointer) < found->first + found->second.size ? found : blocks.end();
}

cudaError_t allocate(void** pointer, size_t bytes, bool host) {
    Locked locked(access_to_all);
    count(host ? "host allocation" : "allocation");
    *pointer = nullptr;
    if (!host && used[current] + bytes > capacity()) return failed(cudaErrorMemoryAllocation);
    if (!bytes) return cudaSuccess;
    const size_t unit = guarded() ? 16 : ALIGNMENT, size = (bytes + unit - 1) / unit * unit;
    const size_t pages = (size + PAGE - 1) / PAGE * PAGE, mapped = pages + 2 * FENCE;
    void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return failed(cudaErrorMemoryAllocation);
    char* base = static_cast<char*>(memory);
    char* start = guarded() ? base + FENCE + pages - size : base + FENCE;
    memset(base, FENCED, mapped);
    memset(start, UNWRITTEN, size);
    if (guarded()) {
        mprotect(base, FENCE, PROT_NONE);
        mprotect(base + FENCE + pages, FENCE, PROT_NONE);
    }
    blocks[reinterpret_cast<uintptr_t>(start)] = {size, current, host, base, mapped};
    if (!host) used[current] += size;
    *pointer = start;
    return cudaSuccess;
}

cudaError_t release(void* pointer) {
    Locked locked(access_to_all);
    if (!pointer) return cudaSuccess;
    const auto found = blocks.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == blocks.end()) return failed(cudaErrorInvalidValue, "what is freed was not allocated");
    const Block block = found->second;
    const char* start = static_cast<char*>(pointer);
    bool whole = true;
    for (const char* at = block.base; !guarded() && at < block.base + block.mapped; ++at)
        if (at == start) at += block.size - 1;
        else whole &= static_cast<unsigned char>(*at) == FENCED;
    if (!whole) fprintf(stderr, "emulated: a block of %zu bytes was written beyond its ends\n", block.size);
    if (!block.host) used[block.device] -= block.size;
    blocks.erase(found);
    munmap(block.base, block.mapped);
    return whole ? cudaSuccess : failed(cudaErrorIllegalAddress);
}

// Whether bytes from here on lie in one block; memory that is none of ours is the host's, which the caller may allow.
bool within(const void* pointer, size_t bytes, bool host_too) {
    const auto found = block_of(pointer);
    if (found == blocks.end()) return host_too;
    return reinterpret_cast<uintptr_t>(pointer) + bytes <= found->first + found->second.size;
}

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    Locked locked(access_to_all);
    if (!bytes) return cudaSuccess;
    if (kind == cudaMemcpyDefault) {
        const auto target = block_of(to), origin = block_of(from);
        const bool written = target != blocks.end() && !target->second.host;
        const bool read = origin != blocks.end() && !origin->second.host;
        kind = static_cast<cudaMemcpyKind>((written ? 1 : 0) + (read ? 2 : 0));
    }
    const char* names[] = {"host to host", "host to device", "device to host", "device to device"};
    count(names[kind]);
    const bool reads = kind & 2, writes = kind & 1;
    if (!within(to, bytes, !writes) || !within(from, bytes, !reads))
        return failed(cudaErrorInvalidValue, "a copy reaches beyond what was allocated");
    memmove(to, from, bytes);
    return cudaSuccess;
}

cudaError_t fill(void* to, int value, size_t bytes) {
    Locked locked(access_to_all);
    if (bytes && !within(to, bytes, false)) return failed(cudaErrorInvalidValue, "what is filled is no device's memory");
    memset(to, value, bytes);
    return cudaSuccess;
}

char* shared_memory() { // below 4 GiB: an address of shared memory has 32 bits
    static void* found = mmap(nullptr, SHARED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    return static_cast<char*>(found);
}

double milliseconds() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(since).count();
}

struct Named { int number; const char* name; const char* text; };
constexpr Named ERRORS[] = {
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
};
const Named& described(int error) {
    static constexpr Named other = {-1, "cudaErrorUnknown", "unknown error"};
    for (const Named& each : ERRORS)
        if (each.number == error) return each;
    return other;
}

struct Attribute { int number, value; };
constexpr Attribute ATTRIBUTES[] = {
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrMultiProcessorCount, 4},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 0x7FFFFFFF},
    {cudaDevAttrMaxGridDimY, 0xFFFF},
    {cudaDevAttrMaxGridDimZ, 0xFFFF},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, 232448},
    {cudaDevAttrUnifiedAddressing, 1},
};
int attribute(int number) {
    for (const Attribute& each : ATTRIBUTES)
        if (each.number == number) return each.value;
    return 0;
}

} // namespace

extern "C" {

// ── ours ────────────────────────────────────────────────────────────────────────────────────────────────────────

// How often something happened: launch, synchronisation, allocation, host to device, device to host, …
long emulated_count(const char* event) {
    Locked locked(access_to_all);
    return counts[event];
}
// The function that turns PTX into the path of a library whose kernels are `kernel_NAME`; empty where it cannot.
void emulated_translator(const char* (*function)(const char*)) { translate = function; }

// ── the runtime ─────────────────────────────────────────────────────────────────────────────────────────────────

const char* cudaGetErrorName(cudaError_t error) { return described(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return described(error).text; }
cudaError_t cudaGetLastError() {
    const cudaError_t found = last;
    last = cudaSuccess;
    return found;
}
cudaError_t cudaDriverGetVersion(int* version) { *version = VERSION; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { *version = VERSION; return cudaSuccess; }

cudaError_t cudaGetDevice(int* device) { *device = current; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* number) { *number = devices(); return cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= devices()) return failed(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
    if (device < 0 || device >= devices()) return failed(cudaErrorInvalidDevice);
    *value = attribute(which);
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "a GPU emulated by the host");
    properties->totalGlobalMem = capacity();
    properties->sharedMemPerBlock = attribute(cudaDevAttrMaxSharedMemoryPerBlock);
    properties->regsPerBlock = attribute(cudaDevAttrMaxRegistersPerBlock);
    properties->warpSize = attribute(cudaDevAttrWarpSize);
    properties->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
    properties->maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
    properties->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
    properties->major = attribute(cudaDevAttrComputeCapabilityMajor);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
    snprintf(text, size, "0000:%02x:00.0", device + 1);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
    *device = static_cast<int>(strtol(text + 5, nullptr, 16)) - 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { count("synchronisation"); return cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { *can = 1; return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) { *value = 1 << 20; return cudaSuccess; }
OK(cudaDeviceEnablePeerAccess, int, unsigned)
OK(cudaDeviceDisablePeerAccess, int)
OK(cudaDeviceSetLimit, cudaLimit, size_t)
OK(cudaProfilerStart)
OK(cudaProfilerStop)

cudaError_t cudaMalloc(void** pointer, size_t bytes) { return allocate(pointer, bytes, false); }
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return allocate(pointer, bytes, false); }
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned) { return allocate(pointer, bytes, false); }
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return allocate(pointer, bytes, true); }
cudaError_t cudaFree(void* pointer) { return release(pointer); }
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return release(pointer); }
cudaError_t cudaFreeHost(void* pointer) { return release(pointer); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    Locked locked(access_to_all);
    *total = capacity();
    *free = capacity() - used[current];
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return copy(to, from, bytes, kind);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
    return copy(to, from, bytes, kind);
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t) {
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return fill(to, value, bytes); }
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { return fill(to, value, bytes); }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    Locked locked(access_to_all);
    memset(attributes, 0, sizeof *attributes);
    attributes->device = cudaInvalidDeviceId;
    const auto found = block_of(pointer);
    if (found == blocks.end()) return cudaSuccess;
    attributes->type = found->second.host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = found->second.device;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = found->second.host ? attributes->devicePointer : nullptr;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    *stream = reinterpret_cast<cudaStream_t>(new Stream{current});
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete reinterpret_cast<Stream*>(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { count("synchronisation"); return cudaSuccess; }
cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned* flags) { *flags = 0; return cudaSuccess; }
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) { *priority = 0; return cudaSuccess; }
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned) {
    function(stream, cudaSuccess, data);
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
    function(data);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
OK(cudaStreamQuery, cudaStream_t)
OK(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned)

cudaError_t cudaEventCreate(cudaEvent_t* event) {
    *event = reinterpret_cast<cudaEvent_t>(new Event{current, 0});
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete reinterpret_cast<Event*>(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const bool own = stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    const int device = own ? reinterpret_cast<Stream*>(stream)->device : current;
    if (reinterpret_cast<Event*>(event)->device != device)
        return failed(cudaErrorInvalidResourceHandle, "an event is recorded in a stream of another device");
    reinterpret_cast<Event*>(event)->at = milliseconds();
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t from, cudaEvent_t to) {
    *time = static_cast<float>(reinterpret_cast<Event*>(to)->at - reinterpret_cast<Event*>(from)->at);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { count("synchronisation"); return cudaSuccess; }
OK(cudaEventQuery, cudaEvent_t)

// ── the driver ──────────────────────────────────────────────────────────────────────────────────────────────────

CUresult cuDriverGetVersion(int* version) { *version = VERSION; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* number) { *number = devices(); return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char** name) { *name = described(error).name; return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char** text) { *text = described(error).text; return CUDA_SUCCESS; }
DRIVER_OK(cuInit, unsigned)

// A device has one context, whose handle is the device's number and 1.
CUresult cuCtxGetCurrent(CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(current) + 1);
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
    current = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) { *device = current; return CUDA_SUCCESS; }
CUresult cuStreamGetCtx(CUstream, CUcontext* context) { return cuCtxGetCurrent(context); }
DRIVER_OK(cuDevicePrimaryCtxRelease_v2, CUdevice)

// CuPy links PTX before it loads it; the one part is the whole.
CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* state) {
    *state = reinterpret_cast<CUlinkState>(new Link);
    return CUDA_SUCCESS;
}
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType, void* data, size_t size, const char*, unsigned,
                          CUjit_option*, void**) {
    reinterpret_cast<Link*>(state)->text.assign(static_cast<char*>(data), size);
    return CUDA_SUCCESS;
}
CUresult cuLinkComplete(CUlinkState state, void** data, size_t* size) {
    std::string& text = reinterpret_cast<Link*>(state)->text;
    *data = &text[0];
    *size = text.size() + 1; // and the zero behind it
    return CUDA_SUCCESS;
}
CUresult cuLinkDestroy(CUlinkState state) {
    delete reinterpret_cast<Link*>(state);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    const char* path = translate ? translate(static_cast<const char*>(image)) : nullptr;
    if (!path || !*path) return refused(CUDA_ERROR_INVALID_IMAGE, "this PTX was not translated");
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return refused(CUDA_ERROR_INVALID_IMAGE, dlerror());
    *module = reinterpret_cast<CUmodule>(new Module{library});
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
    delete reinterpret_cast<Module*>(module); // the library stays: what was launched may be kept
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    void* found = dlsym(reinterpret_cast<Module*>(module)->library, (std::string("kernel_") + name).c_str());
    if (!found) return refused(CUDA_ERROR_NOT_FOUND, name);
    *function = reinterpret_cast<CUfunction>(new Function{reinterpret_cast<Kernel>(found), name});
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream, void** parameters, void**) {
    const unsigned sizes[6] = {grid_x, grid_y, grid_z, block_x, block_y, block_z};
    constexpr unsigned limits[6] = {0x7FFFFFFF, 0xFFFF, 0xFFFF, 1024, 1024, 64};
    bool fits = block_x * block_y * block_z <= 1024 && shared <= 232448;
    for (int i = 0; i < 6; ++i) fits &= sizes[i] && sizes[i] <= limits[i];
    const Function& kernel = *reinterpret_cast<Function*>(function);
    if (!fits) return refused(CUDA_ERROR_INVALID_VALUE, ("a launch is too large: " + kernel.name).c_str());
    Locked locked(access_to_all);
    count("launch");
    if (getenv("EMULATED_TRACE"))
        fprintf(stderr, "emulated: %s<<<(%u, %u, %u), (%u, %u, %u), %u>>>\n", kernel.name.c_str(), grid_x, grid_y,
                grid_z, block_x, block_y, block_z, shared);
    const char* failure = kernel.run(sizes, shared, shared_memory(), parameters);
    return failure ? refused(CUDA_ERROR_LAUNCH_FAILED, failure) : CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
    *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) {
    *blocks = 2;
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, CUoccupancyB2DSize, size_t, int) {
    *grid = 8;
    *block = 256;
    return CUDA_SUCCESS;
}
DRIVER_OK(cuFuncSetAttribute, CUfunction, CUfunction_attribute, int)

} // extern "C"
