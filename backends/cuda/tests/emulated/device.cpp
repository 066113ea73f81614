// A CUDA device made of host memory: what CuPy calls of CUDA's runtime and driver.
//
// Work is done when it is asked for, or, with EMULATED_LATE, when somebody waits for it, and then no more of it than
// that: whatever a program forgot to order is in the wrong order. What devices do together is done when all are there;
// until then what follows waits. A stream that captures keeps its work for a graph, which does that of other streams
// than the first as early as it may, or, late, as late.
// Every copy must lie within what was allocated, and every block is fenced: by a pattern that is looked at when the block
// is freed, or, with EMULATED_GUARD, by a page that may be neither read nor written. While one device works, the memory
// of the others may be neither read nor written.
//
// EMULATED_DEVICES  how many devices there are; 1
// EMULATED_MEMORY   bytes of each; 4 GiB
// EMULATED_GUARD    a block ends at a page that nobody may touch, and CuPy pools none
// EMULATED_LATE     work is done when somebody waits for it
// EMULATED_PATIENCE seconds that a device is waited for in what devices do together; 20
// EMULATED_POISON   what CuPy's pool takes back is NaN
// EMULATED_TRACE    each launch is printed
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include "device.h"

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
bool late = getenv("EMULATED_LATE");
bool idle = false;

struct Block { size_t size; int device; bool host; char* base; size_t mapped; long number; };
struct Stream;
typedef std::map<Stream*, long> Seen; // how many nodes of each stream of a capture come before
struct Task { long ticket; Work work; std::vector<std::pair<Stream*, long>> after; Ready ready; };
struct Node {
    Work work;
    std::string name;
    std::vector<std::pair<const void*, long>> memory; // and its block's number
    Meeting meeting;
    Stream* stream;
    Seen after;
};
struct Graph {
    std::vector<Node> nodes;
    std::vector<Stream*> streams;
    std::map<Stream*, Seen> seen;
    long number;
    bool broken;
};
struct Stream { int device; bool is_default, blocking; std::deque<Task> waiting; Graph* graph; bool advances; };
struct Event { int device; std::shared_ptr<double> at; Stream* stream; long ticket; Graph* graph; Seen seen; };
struct Link { std::string text; };
struct Module { void* library; };
typedef const char* (*Kernel)(const unsigned* sizes, size_t dynamic, char* shared, void** parameters); // null, or why
struct Function { Kernel run; std::string name; const unsigned* parameters; }; // how many, and the bytes of each

struct Access { // a recursive lock, which whoever waits lets go as often as it has it
    std::recursive_mutex mutex;
    static inline thread_local int depth = 0;
    void lock() { mutex.lock(); ++depth; }
    void unlock() { --depth; mutex.unlock(); }
} access_to_all;
struct Whole {
    int depth = 0;
    void lock() { while (depth) --depth, access_to_all.lock(); }
    void unlock() { while (Access::depth) ++depth, access_to_all.unlock(); }
};
typedef std::lock_guard<Access> Locked;
std::condition_variable_any somebody_came;
std::string missing; // who has not come, in words
std::map<uintptr_t, Block> blocks;
std::map<int, size_t> used;
std::map<std::string, long> counts;
std::vector<Stream*> streams; // all there ever were: what was given to one may be waited for when it is gone
std::map<int, std::vector<Stream*>> destroyed; // of each device: streams whose handles are given again
long tickets = 0, allocations = 0, captures = 0;
const char* broken = nullptr; // why work that was done late failed; whoever waits is told
int readable = 0; // the device whose memory may be read and written
bool recording = false;
std::string recorded;
thread_local int current = 0;
thread_local void* chosen = nullptr; // the stream that a library is to use
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
const char* kept(const std::string& words) {
    static std::set<std::string> all;
    return all.insert(words).first->c_str();
}
void count(const char* event) {
    Locked locked(access_to_all);
    ++counts[event];
}

// ── whose memory ────────────────────────────────────────────────────────────────────────────────────────────────

std::map<uintptr_t, Block>::iterator block_of(const void* pointer) {
    auto after = blocks.upper_bound(reinterpret_cast<uintptr_t>(pointer));
    if (after == blocks.begin()) return blocks.end();
    const auto found = std::prev(after);
    return reinterpret_cast<uintptr_t>(pointer) < found->first + found->second.size ? found : blocks.end();
}

void protect(uintptr_t start, const Block& block, bool open) {
    const uintptr_t first = start / PAGE * PAGE;
    mprotect(reinterpret_cast<void*>(first), (block.size + start - first + PAGE - 1) / PAGE * PAGE,
             open ? PROT_READ | PROT_WRITE : PROT_NONE);
}
// From here on the memory of this device is there, and that of no other.
void enter(int device) {
    if (readable == device) return;
    for (const auto& [start, block] : blocks)
        if (!block.host && (block.device == device || block.device == readable))
            protect(start, block, block.device == device);
    readable = device;
}
// Memory that a copy reads or writes, whose ever it is.
struct Opened {
    std::map<uintptr_t, Block>::iterator at;
    bool closed;
    explicit Opened(const void* pointer) : at(block_of(pointer)) {
        closed = at != blocks.end() && !at->second.host && at->second.device != readable;
        if (closed) protect(at->first, at->second, true);
    }
    ~Opened() {
        if (closed) protect(at->first, at->second, false);
    }
};

// ── work ────────────────────────────────────────────────────────────────────────────────────────────────────────

Stream& stream_of(void* handle) {
    static std::map<int, Stream> defaults;
    if (handle && handle != cudaStreamLegacy && handle != cudaStreamPerThread) return *static_cast<Stream*>(handle);
    const auto [found, is_new] = defaults.try_emplace(current, Stream{current, true, true, {}, nullptr, false});
    if (is_new) streams.push_back(&found->second);
    return found->second;
}

// What was given to a stream up to a ticket, and what that waits for: nothing else. False where it waits for a device.
bool advance(Stream& stream, long ticket = std::numeric_limits<long>::max()) {
    const auto done = [&] { return stream.waiting.empty() || stream.waiting.front().ticket > ticket; };
    if (stream.advances) return done();
    stream.advances = true;
    while (!done()) {
        bool goes = true;
        const auto after = stream.waiting.front().after;
        for (const auto& [other, until] : after) goes = goes && advance(*other, until);
        const Ready ready = stream.waiting.front().ready;
        if (!goes || (ready && !ready())) break;
        const Task task = std::move(stream.waiting.front());
        stream.waiting.pop_front();
        enter(stream.device);
        const char* failure = task.work();
        if (failure) broken = failure;
    }
    stream.advances = false;
    return done();
}
void advance_device(int device) {
    for (size_t i = 0; i < streams.size(); ++i)
        if (streams[i]->device == device) advance(*streams[i]);
}
// The same, and whom it waits for comes, or is named in an error.
void finish(Stream& stream, long ticket = std::numeric_limits<long>::max()) {
    static const size_t patience = setting("EMULATED_PATIENCE", 20);
    while (!advance(stream, ticket)) {
        Whole whole;
        const auto came = somebody_came.wait_for(whole, std::chrono::seconds(patience));
        if (came == std::cv_status::timeout && !advance(stream, ticket)) {
            broken = kept(missing);
            for (Stream* each : streams) each->waiting.clear();
            return;
        }
    }
}
void finish_device(int device) {
    for (size_t i = 0; i < streams.size(); ++i)
        if (streams[i]->device == device) finish(*streams[i]);
}
// The nodes of a graph, each after what it comes after.
std::vector<const Node*> in_order(const Graph& graph) {
    std::map<Stream*, std::deque<const Node*>> left;
    for (const Node& node : graph.nodes) left[node.stream].push_back(&node);
    std::vector<Stream*> turns = graph.streams;
    if (!late) std::rotate(turns.begin(), turns.begin() + 1, turns.end());
    std::vector<const Node*> found;
    Seen done;
    while (found.size() < graph.nodes.size()) {
        const auto next = std::find_if(turns.begin(), turns.end(), [&](Stream* each) {
            return !left[each].empty() && std::all_of(left[each][0]->after.begin(), left[each][0]->after.end(),
                                                      [&](const auto& one) { return done[one.first] >= one.second; });
        });
        found.push_back(left[*next].front());
        left[*next].pop_front();
        ++done[*next];
    }
    return found;
}
bool refuses_to_wait(Stream& stream) {
    if (stream.graph) stream.graph->broken = true;
    return stream.graph;
}
cudaError_t waited() {
    if (!broken) return cudaSuccess;
    fprintf(stderr, "emulated: %s\n", std::exchange(broken, nullptr));
    return failed(cudaErrorLaunchFailure);
}
// Work for a stream, after another stream's up to a ticket. Null, or what went wrong, if it was done now. A graph keeps its
// name, and which memory it is over. What devices do together has a meeting.
const char* give(Stream& stream, Work work, const std::string& name = "", const std::vector<const void*>& memory = {},
                 Stream* other = nullptr, long until = 0, const Meeting& meeting = nullptr) {
    if (idle) return nullptr;
    if (stream.graph) {
        Seen& seen = stream.graph->seen[&stream];
        Node node = {std::move(work), name, {}, meeting, &stream, seen};
        for (const void* each : memory)
            if (const auto found = block_of(each); found != blocks.end())
                node.memory.emplace_back(each, found->second.number);
        stream.graph->nodes.push_back(std::move(node));
        ++seen[&stream];
        return nullptr;
    }
    Task task = {++tickets, std::move(work), {}, nullptr};
    if (other) task.after.emplace_back(other, until);
    for (Stream* each : streams) // the default stream, and those that are not said to be free of it, take turns
        if (each != &stream && each->device == stream.device && each->blocking && stream.blocking &&
            (stream.is_default || each->is_default) && !each->waiting.empty())
            task.after.emplace_back(each, tickets);
    if (meeting) task.ready = meeting(&stream, tickets);
    stream.waiting.push_back(std::move(task));
    if (meeting) somebody_came.notify_all();
    if (late) return nullptr;
    advance(stream);
    for (size_t i = 0; meeting && i < streams.size(); ++i) advance(*streams[i]); // who waited goes on
    return std::exchange(broken, nullptr);
}
std::string described(const void* to, const void* from, size_t bytes) {
    char text[80];
    snprintf(text, sizeof text, " %p %p %zu", to, from, bytes);
    return text;
}
void record(const std::string& line) {
    if (recording) recorded += line + "\n";
}

// ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────

cudaError_t allocate(void** pointer, size_t bytes, bool host) {
    Locked locked(access_to_all);
    enter(current);
    count(host ? "host allocation" : "allocation");
    record((host ? "host allocation " : "allocation ") + std::to_string(bytes));
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
    blocks[reinterpret_cast<uintptr_t>(start)] = {size, current, host, base, mapped, ++allocations};
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
    for (int device = 0; device < devices(); ++device) // what was given before may read it
        if (block.host || device == block.device) finish_device(device);
    protect(found->first, block, true);
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

cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, void* handle, bool waits) {
    Locked locked(access_to_all);
    if (!bytes) return cudaSuccess;
    const auto target = block_of(to), origin = block_of(from);
    if (kind == cudaMemcpyDefault) {
        const bool written = target != blocks.end() && !target->second.host;
        const bool read = origin != blocks.end() && !origin->second.host;
        kind = static_cast<cudaMemcpyKind>((written ? 1 : 0) + (read ? 2 : 0));
    }
    const char* names[] = {"host to host", "host to device", "device to host", "device to device"};
    count(names[kind]);
    record(names[kind] + described(to, from, bytes));
    const bool reads = kind & 2, writes = kind & 1;
    if (!within(to, bytes, !writes) || !within(from, bytes, !reads))
        return failed(cudaErrorInvalidValue, "a copy reaches beyond what was allocated");
    // Of memory that is none of CUDA's, what is read is kept at once, and what is written is waited for.
    const bool kept = origin == blocks.end();
    if (kept) count("from pageable memory");
    waits |= target == blocks.end();
    Stream& stream = stream_of(handle);
    if ((kept || waits) && refuses_to_wait(stream)) return failed(cudaErrorStreamCaptureUnsupported);
    const auto bytes_kept = std::make_shared<std::string>(kept ? std::string(static_cast<const char*>(from), bytes) : "");
    give(stream, [=]() -> const char* {
        const Opened first(to), second(from);
        memmove(to, kept ? bytes_kept->data() : from, bytes);
        return nullptr;
    }, "a copy", {to, from});
    if (waits) finish(stream);
    return waits ? waited() : cudaSuccess;
}

cudaError_t fill(void* to, int value, size_t bytes, void* handle) {
    Locked locked(access_to_all);
    if (bytes && !within(to, bytes, false)) return failed(cudaErrorInvalidValue, "what is filled is no device's memory");
    record("fill" + described(to, nullptr, bytes));
    give(stream_of(handle), [=]() -> const char* {
        const Opened opened(to);
        memset(to, value, bytes);
        return nullptr;
    }, "a fill", {to});
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
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capture sequence contains a fork that was not joined to the primary stream"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
};
const Named& named(int error) {
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

// ── what the libraries call ─────────────────────────────────────────────────────────────────────────────────────

void emulated_choose(void* stream) { chosen = stream; }
void* emulated_chosen() { return chosen; }
bool emulated_idles() { return idle; }
void emulated_now() {
    Locked locked(access_to_all);
    Stream& stream = stream_of(chosen);
    if (!refuses_to_wait(stream)) finish(stream);
    enter(current);
}
bool emulated_give(const std::string& line, Work work, const std::vector<const void*>& memory, const Meeting& meeting) {
    Locked locked(access_to_all);
    record(line);
    const char* failure = give(stream_of(chosen), std::move(work), line, memory, nullptr, 0, meeting);
    if (failure) fprintf(stderr, "emulated: %s\n", failure);
    return !failure;
}

bool emulated_advance(void* stream, long ticket) { return advance(*static_cast<Stream*>(stream), ticket); }
void emulated_miss(const std::string& whom) { missing = whom; }
int emulated_device(void* stream) { return stream_of(stream).device; }
void emulated_fail(const std::string& why) { broken = kept(why); }
long emulated_capture(void* stream) { return stream_of(stream).graph ? stream_of(stream).graph->number : 0; }
bool emulated_has(const void* memory, size_t bytes) { return within(memory, bytes, false); }
std::string emulated_read(const void* from, size_t bytes) {
    const Opened opened(from);
    return {static_cast<const char*>(from), bytes};
}
void emulated_write(void* to, const std::string& bytes) {
    const Opened opened(to);
    memcpy(to, bytes.data(), bytes.size());
}

extern "C" {

// ── ours ────────────────────────────────────────────────────────────────────────────────────────────────────────

// How often something happened: launch, synchronisation, allocation, host to device, device to host, …
long emulated_count(const char* event) {
    Locked locked(access_to_all);
    return counts[event];
}
// From here on work is done late, or no more: then what was left is done.
void emulated_late(int on) {
    Locked locked(access_to_all);
    late = on;
    for (int device = 0; !on && device < devices(); ++device) advance_device(device);
}
// From here on, or no more, no work is done at all.
void emulated_idle(int on) {
    Locked locked(access_to_all);
    idle = on;
}
// From here on, or no more: what is launched, copied, filled, multiplied and allocated, one a line with all arguments.
void emulated_record(int on) {
    Locked locked(access_to_all);
    if ((recording = on)) recorded.clear();
}
const char* emulated_recorded() { return recorded.c_str(); }
// What a pool has taken back holds no more numbers, once its stream, and the current one, have done what they were given so
// far. No part of a graph, which would overwrite what is others' by then.
void emulated_poison(void* memory, size_t bytes, void* handle, int device, void* now) {
    Locked locked(access_to_all);
    Stream* const other = &stream_of(now);
    const int before = std::exchange(current, device);
    if (Stream& stream = stream_of(handle); !stream.graph)
        give(stream, [=]() -> const char* {
            if (within(memory, bytes, false)) memset(memory, UNWRITTEN, bytes);
            return nullptr;
        }, "", {}, other, tickets);
    current = before;
}
// The function that turns PTX into the path of a library whose kernels are `kernel_NAME`; empty where it cannot.
void emulated_translator(const char* (*function)(const char*)) { translate = function; }

// ── the runtime ─────────────────────────────────────────────────────────────────────────────────────────────────

const char* cudaGetErrorName(cudaError_t error) { return named(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return named(error).text; }
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
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    memset(properties, 0, sizeof *properties);
    strcpy(properties->name, "a GPU emulated by the host");
    properties->uuid.bytes[0] = static_cast<char>(device + 1);
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
cudaError_t cudaDeviceSynchronize() {
    Locked locked(access_to_all);
    count("synchronisation");
    for (Stream* each : streams)
        if (each->device == current && refuses_to_wait(*each)) return failed(cudaErrorStreamCaptureUnsupported);
    finish_device(current);
    return waited();
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { *can = 0; return cudaSuccess; }
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
    return copy(to, from, bytes, kind, nullptr, true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy(to, from, bytes, kind, stream, false);
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr, false);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return fill(to, value, bytes, nullptr); }
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    return fill(to, value, bytes, stream);
}
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

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    Locked locked(access_to_all);
    std::vector<Stream*>& free = destroyed[current];
    if (free.empty()) free.push_back(streams.emplace_back(new Stream{current, false, false, {}, nullptr, false}));
    free.back()->blocking = !(flags & cudaStreamNonBlocking);
    *stream = reinterpret_cast<cudaStream_t>(free.back());
    free.pop_back();
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}
// What it was given is done all the same. Its handle is the next stream's.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    Locked locked(access_to_all);
    destroyed[stream_of(stream).device].push_back(&stream_of(stream));
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    Locked locked(access_to_all);
    count("synchronisation");
    Stream& stream = stream_of(handle);
    if (refuses_to_wait(stream)) return failed(cudaErrorStreamCaptureUnsupported);
    finish(stream);
    return waited();
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    *flags = stream_of(stream).blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) { *priority = 0; return cudaSuccess; }
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned) {
    cudaStreamSynchronize(stream);
    function(stream, cudaSuccess, data);
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    cudaStreamSynchronize(stream);
    function(data);
    return cudaSuccess;
}
// Who asks again and again gets on: each time one task is done.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
    Locked locked(access_to_all);
    Stream& stream = stream_of(handle);
    if (refuses_to_wait(stream)) return failed(cudaErrorStreamCaptureUnsupported);
    if (stream.waiting.empty()) return cudaSuccess;
    advance(stream, stream.waiting.front().ticket);
    return cudaErrorNotReady;
}

// Capture: what the streams that take part are given is kept, and after what of the others it comes.
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
    Locked locked(access_to_all);
    Stream& stream = stream_of(handle);
    if (stream.is_default || stream.graph) return failed(cudaErrorStreamCaptureUnsupported);
    stream.graph = new Graph{{}, {&stream}, {}, ++captures, false};
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
    Locked locked(access_to_all);
    Graph* found = stream_of(handle).graph;
    *graph = nullptr;
    if (!found) return failed(cudaErrorInvalidValue);
    Seen& seen = found->seen[found->streams[0]];
    bool joined = true;
    for (Stream* each : found->streams) {
        joined &= seen[each] == found->seen[each][each];
        each->graph = nullptr;
    }
    if (found->broken) return failed(cudaErrorStreamCaptureInvalidated);
    if (!joined) return failed(cudaErrorStreamCaptureUnjoined);
    *graph = reinterpret_cast<cudaGraph_t>(found);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
    Locked locked(access_to_all);
    const Graph* graph = stream_of(handle).graph;
    *status = !graph ? cudaStreamCaptureStatusNone
              : graph->broken ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
    *made = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t where) {
    Locked locked(access_to_all);
    count("graph launch");
    record("graph");
    const Graph& graph = *reinterpret_cast<Graph*>(handle);
    for (const Node& node : graph.nodes)
        for (const auto& [pointer, number] : node.memory)
            if (const auto found = block_of(pointer); found == blocks.end() || found->second.number != number)
                return failed(cudaErrorIllegalAddress, ("a graph is launched whose memory is freed: " + node.name).c_str());
    for (const Node* node : in_order(graph))
        if (const char* failure = give(stream_of(where), node->work, node->name, {}, nullptr, 0, node->meeting))
            return failed(cudaErrorLaunchFailure, failure);
    return cudaSuccess;
}
OK(cudaGraphUpload, cudaGraphExec_t, cudaStream_t)
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete reinterpret_cast<Graph*>(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete reinterpret_cast<Graph*>(graph);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    *event = reinterpret_cast<cudaEvent_t>(new Event{current, std::make_shared<double>(0), nullptr, 0, nullptr, {}});
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete reinterpret_cast<Event*>(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t where) {
    Locked locked(access_to_all);
    Event& event = *reinterpret_cast<Event*>(handle);
    Stream& stream = stream_of(where);
    if (event.device != stream.device)
        return failed(cudaErrorInvalidResourceHandle, "an event is recorded in a stream of another device");
    event.stream = &stream;
    event.graph = stream.graph;
    if (event.graph) {
        event.seen = event.graph->seen[&stream];
        return cudaSuccess;
    }
    give(stream, [at = event.at]() -> const char* {
        *at = milliseconds();
        return nullptr;
    });
    event.ticket = tickets;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t which, unsigned) {
    Locked locked(access_to_all);
    Stream& stream = stream_of(handle);
    const Event& event = *reinterpret_cast<Event*>(which);
    if (event.graph) {
        if (event.stream->graph != event.graph) return failed(cudaErrorCapturedEvent); // that capture has ended
        if (!stream.graph) event.graph->streams.push_back(&stream);
        stream.graph = event.graph;
        for (const auto& [each, number] : event.seen) {
            long& seen = stream.graph->seen[&stream][each];
            seen = std::max(seen, number);
        }
        return cudaSuccess;
    }
    if (refuses_to_wait(stream)) return failed(cudaErrorStreamCaptureIsolation);
    if (event.stream) give(stream, []() -> const char* { return nullptr; }, "", {}, event.stream, event.ticket);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t from, cudaEvent_t to) {
    *time = static_cast<float>(*reinterpret_cast<Event*>(to)->at - *reinterpret_cast<Event*>(from)->at);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t which) {
    Locked locked(access_to_all);
    count("synchronisation");
    const Event& event = *reinterpret_cast<Event*>(which);
    if (event.graph) return failed(cudaErrorCapturedEvent);
    if (event.stream) finish(*event.stream, event.ticket);
    return waited();
}
cudaError_t cudaEventQuery(cudaEvent_t which) {
    Locked locked(access_to_all);
    const Event& event = *reinterpret_cast<Event*>(which);
    if (event.graph) return failed(cudaErrorCapturedEvent);
    if (!event.stream || event.stream->waiting.empty()) return cudaSuccess;
    const long first = event.stream->waiting.front().ticket;
    if (first > event.ticket) return cudaSuccess;
    advance(*event.stream, first);
    return cudaErrorNotReady;
}

// ── the driver ──────────────────────────────────────────────────────────────────────────────────────────────────

CUresult cuDriverGetVersion(int* version) { *version = VERSION; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* number) { *number = devices(); return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char** name) { *name = named(error).name; return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char** text) { *text = named(error).text; return CUDA_SUCCESS; }
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
    const void* sizes = dlsym(reinterpret_cast<Module*>(module)->library, (std::string("sizes_") + name).c_str());
    *function = reinterpret_cast<CUfunction>(
        new Function{reinterpret_cast<Kernel>(found), name, static_cast<const unsigned*>(sizes)});
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream handle, void** parameters,
                        void**) {
    const std::array<unsigned, 6> sizes = {grid_x, grid_y, grid_z, block_x, block_y, block_z};
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
    Stream& stream = stream_of(handle);
    if (stream.device != current) return refused(CUDA_ERROR_INVALID_HANDLE, "a launch in a stream of another device");
    if (idle) return CUDA_SUCCESS;
    // What the arguments are is copied: whoever launches may change or free it.
    std::vector<std::string> arguments;
    for (unsigned i = 0; i < kernel.parameters[0]; ++i)
        arguments.emplace_back(static_cast<const char*>(parameters[i]), kernel.parameters[i + 1]);
    if (recording) {
        std::string line = kernel.name;
        for (const unsigned each : sizes) line += " " + std::to_string(each);
        for (const std::string& each : arguments) {
            line += " ";
            for (const unsigned char byte : each) line += {"0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]};
        }
        record(line);
    }
    std::vector<const void*> memory;
    for (const std::string& each : arguments) // whatever may be a pointer
        for (size_t at = 0; stream.graph && at + 8 <= each.size(); at += 8)
            memcpy(&memory.emplace_back(), each.data() + at, 8);
    const char* failure = give(stream, [run = kernel.run, sizes, shared, arguments]() {
        std::vector<void*> places;
        for (const std::string& each : arguments) places.push_back(const_cast<char*>(each.data()));
        return run(sizes.data(), shared, shared_memory(), places.data());
    }, kernel.name, memory);
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
