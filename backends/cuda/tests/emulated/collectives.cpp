// NCCL between devices of one process, by definition: what CuPy calls of it.
//
// Each rank is a thread, with a device of its own. The nth call of a communicator is the nth of all its ranks: it is done
// when their streams have all come to it. What a group sends and receives is one call, made by all ranks. Calls that do not
// go together fail, and so do those that one rank has in a graph and another has not, or in another of its graphs: these
// are counted from their first launches, as what was captured may be thrown away.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>
#include "device.h"

namespace {

enum { OK, INVALID_ARGUMENT = 4 };
struct Type { const char* name; size_t size; };
constexpr Type TYPES[] = {{"int8", 1}, {"uint8", 1}, {"int32", 4}, {"uint32", 4}, {"int64", 8}, {"uint64", 8},
                          {"float16", 2}, {"float32", 4}, {"float64", 8}, {"bfloat16", 2}};
constexpr const char* REDUCTIONS[] = {"sum", "prod", "max", "min"};
struct Id { char bytes[128]; };
struct Part { const void* from; void* to; size_t bytes; int peer; }; // sent where `from` is, else received
struct Call {
    std::string kind; // with counts, types, reductions and roots: what is alike on all ranks
    std::vector<Part> parts;
    std::function<void(const std::vector<Call*>&)> work; // of all ranks
    long capture; // the how manieth of its rank's graphs it is in, or 0
    void* stream = nullptr;
    long ticket = 0;
    bool here = false;
};
struct Round { std::map<int, Call> calls; bool done = false; };
struct World {
    int size;
    std::vector<long> made; // calls of each rank
    std::vector<std::map<long, long>> graphs; // of each rank, by capture: the how manieth that was launched
    std::map<long, Round> rounds;
};
struct Communicator { std::shared_ptr<World> world; int rank, device; };

std::mutex of_worlds;
std::map<std::string, std::shared_ptr<World>> worlds;
thread_local int depth = 0; // of groups
struct Sent { Communicator* communicator; void* stream; Call call; std::string more; };
thread_local std::vector<Sent> group;

std::string named(World& world, int rank) { return "rank " + std::to_string(rank) + " of " + std::to_string(world.size); }

void perform(World& world, Round& round) {
    std::vector<Call*> calls;
    for (auto& [rank, call] : round.calls) calls.push_back(&call);
    round.done = true;
    for (int rank = 1; rank < world.size; ++rank) {
        const Call &first = *calls[0], &other = *calls[rank];
        const std::string one = named(world, 0), another = named(world, rank);
        if (first.kind != other.kind)
            return emulated_fail("NCCL: " + one + " calls " + first.kind + ", " + another + " " + other.kind);
        if (first.capture != other.capture)
            return emulated_fail("NCCL: " + first.kind + " of " + one + " is in its graph " + std::to_string(first.capture) +
                                 ", of " + another + " in " + std::to_string(other.capture) + " (0: in none)");
    }
    for (const Call* call : calls)
        for (const Part& part : call->parts)
            if (!emulated_has(part.from ? part.from : part.to, part.bytes))
                return emulated_fail("NCCL: " + call->kind + " reaches beyond what was allocated");
    calls[0]->work(calls);
}

bool ready(World& world, long number, int rank) {
    Round& round = world.rounds[number];
    round.calls[rank].here = true;
    for (auto& [other, call] : round.calls)
        if (!call.here) emulated_advance(call.stream, call.ticket);
    for (int other = 0; !round.done && other < world.size; ++other)
        if (!round.calls.contains(other) || !round.calls[other].here) {
            emulated_miss("NCCL: " + round.calls[rank].kind + ", call " + std::to_string(number + 1) + " of " +
                          named(world, rank) + ", waits for rank " + std::to_string(other) + ", which has made " +
                          std::to_string(world.made[other]));
            if (!round.calls.contains(other)) return false;
        }
    const bool all = std::all_of(round.calls.begin(), round.calls.end(), [](const auto& each) { return each.second.here; });
    if (!round.done && all && static_cast<int>(round.calls.size()) == world.size) perform(world, round);
    return round.done;
}

int call(Communicator* communicator, void* stream, Call made, const std::string& more = "") {
    if (emulated_device(stream) != communicator->device) return INVALID_ARGUMENT;
    const std::shared_ptr<World> world = communicator->world;
    const int rank = communicator->rank;
    if (depth) { // the group's end calls it
        group.push_back({communicator, stream, std::move(made), more});
        return OK;
    }
    const long capture = emulated_capture(stream);
    std::vector<const void*> memory;
    for (const Part& part : made.parts) memory.push_back(part.from ? part.from : part.to);
    void* const before = emulated_chosen(); // of other libraries
    emulated_choose(stream);
    const std::string line = "NCCL " + std::to_string(rank) + ": " + made.kind + more;
    const bool went = emulated_give(line, []() -> const char* { return nullptr; }, memory, [=](void* stream, long ticket) {
        const long number = world->made[rank]++;
        Call& own = world->rounds[number].calls[rank] = made;
        std::map<long, long>& graphs = world->graphs[rank];
        if (capture) own.capture = graphs.try_emplace(capture, graphs.size() + 1).first->second;
        own.stream = stream;
        own.ticket = ticket;
        return Ready([=] { return ready(*world, number, rank); });
    });
    emulated_choose(before);
    return went ? OK : 1;
}

std::string counted(size_t count, int type) { return " " + std::to_string(count) + " " + TYPES[type].name; }

template <class T> void reduce(std::string& total, const std::string& more, int reduction) {
    T* to = reinterpret_cast<T*>(&total[0]);
    const T* from = reinterpret_cast<const T*>(more.data());
    for (size_t i = 0; i < total.size() / sizeof(T); ++i)
        to[i] = reduction == 0 ? to[i] + from[i] : reduction == 1 ? to[i] * from[i]
              : reduction == 2 ? std::max(to[i], from[i]) : std::min(to[i], from[i]);
}
constexpr void (*REDUCE[])(std::string&, const std::string&, int) = {
    reduce<int8_t>, reduce<uint8_t>, reduce<int32_t>, reduce<uint32_t>, reduce<int64_t>, reduce<uint64_t>,
    nullptr, reduce<float>, reduce<double>, nullptr};

// What ranks give, one after the other.
std::vector<std::string> all_given(const std::vector<Call*>& calls) {
    std::vector<std::string> found;
    for (const Call* each : calls) found.push_back(emulated_read(each->parts[0].from, each->parts[0].bytes));
    return found;
}
std::string reduced(const std::vector<Call*>& calls, int type, int reduction) {
    std::vector<std::string> given = all_given(calls);
    for (size_t i = 1; i < given.size(); ++i) REDUCE[type](given[0], given[i], reduction);
    return given[0];
}
void exchange(const std::vector<Call*>& calls) {
    std::map<std::pair<int, int>, std::vector<std::string>> sent; // by sender and receiver
    std::vector<std::pair<void*, std::string>> received;
    for (int rank = 0; rank < static_cast<int>(calls.size()); ++rank)
        for (const Part& part : calls[rank]->parts)
            if (part.from) sent[{rank, part.peer}].push_back(emulated_read(part.from, part.bytes));
    for (int rank = 0; rank < static_cast<int>(calls.size()); ++rank)
        for (const Part& part : calls[rank]->parts) {
            if (part.from) continue;
            auto& left = sent[{part.peer, rank}];
            if (left.empty() || left[0].size() != part.bytes)
                return emulated_fail("NCCL: rank " + std::to_string(rank) + " receives " + std::to_string(part.bytes) +
                                     " bytes of rank " + std::to_string(part.peer) + ", which sends " +
                                     (left.empty() ? "nothing" : std::to_string(left[0].size())));
            received.emplace_back(part.to, left[0]);
            left.erase(left.begin());
        }
    for (const auto& [pair, left] : sent)
        if (!left.empty()) return emulated_fail("NCCL: nobody receives what rank " + std::to_string(pair.first) + " sends");
    for (const auto& [to, bytes] : received) emulated_write(to, bytes);
}

bool is_wrong(int type, int reduction = 0) {
    return type < 0 || type >= 10 || reduction < 0 || reduction > 3;
}

} // namespace

extern "C" {

int ncclGetVersion(int* version) { *version = 22707; return OK; }
const char* ncclGetErrorString(int) { return "what is wrong is on stderr"; }
int ncclGetUniqueId(Id* id) {
    const std::lock_guard locked(of_worlds);
    static int number = 0;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "%d", ++number);
    return OK;
}
int ncclCommInitRankConfig(Communicator** communicator, int size, Id id, int rank, void*) {
    const std::lock_guard locked(of_worlds);
    std::shared_ptr<World>& world = worlds[id.bytes];
    if (!world) world.reset(new World{size, std::vector<long>(size), std::vector<std::map<long, long>>(size), {}});
    if (rank < 0 || rank >= size || size != world->size) return INVALID_ARGUMENT;
    *communicator = new Communicator{world, rank, emulated_device(nullptr)};
    return OK;
}
int ncclCommDestroy(Communicator*) { return OK; } // what it was given may still be waited for
int ncclCommAbort(Communicator*) { return OK; }
int ncclCommGetAsyncError(Communicator*, int* error) { return *error = OK; }
int ncclCommCount(Communicator* of, int* size) { *size = of->world->size; return OK; }
int ncclCommUserRank(Communicator* of, int* rank) { *rank = of->rank; return OK; }
int ncclCommCuDevice(Communicator* of, int* device) { *device = of->device; return OK; }

int ncclAllReduce(const void* from, void* to, size_t count, int type, int reduction, Communicator* of, void* stream) {
    if (is_wrong(type, reduction) || !REDUCE[type]) return INVALID_ARGUMENT;
    const size_t bytes = count * TYPES[type].size;
    return call(of, stream, {"all_reduce" + counted(count, type) + " " + REDUCTIONS[reduction],
                             {{from, nullptr, bytes, 0}, {nullptr, to, bytes, 0}}, [=](const auto& calls) {
        const std::string total = reduced(calls, type, reduction);
        for (const Call* each : calls) emulated_write(each->parts[1].to, total);
    }, 0});
}
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int reduction, Communicator* of, void* stream) {
    if (is_wrong(type, reduction) || !REDUCE[type]) return INVALID_ARGUMENT;
    const size_t bytes = count * TYPES[type].size;
    return call(of, stream, {"reduce_scatter" + counted(count, type) + " " + REDUCTIONS[reduction],
                             {{from, nullptr, bytes * of->world->size, 0}, {nullptr, to, bytes, 0}}, [=](const auto& calls) {
        const std::string total = reduced(calls, type, reduction);
        for (size_t i = 0; i < calls.size(); ++i) emulated_write(calls[i]->parts[1].to, total.substr(i * bytes, bytes));
    }, 0});
}
int ncclAllGather(const void* from, void* to, size_t count, int type, Communicator* of, void* stream) {
    if (is_wrong(type)) return INVALID_ARGUMENT;
    const size_t bytes = count * TYPES[type].size;
    return call(of, stream, {"all_gather" + counted(count, type),
                             {{from, nullptr, bytes, 0}, {nullptr, to, bytes * of->world->size, 0}}, [](const auto& calls) {
        std::string all;
        for (const std::string& each : all_given(calls)) all += each;
        for (const Call* each : calls) emulated_write(each->parts[1].to, all);
    }, 0});
}
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Communicator* of, void* stream) {
    if (is_wrong(type) || root < 0 || root >= of->world->size) return INVALID_ARGUMENT;
    const size_t bytes = count * TYPES[type].size;
    return call(of, stream, {"broadcast" + counted(count, type) + " from " + std::to_string(root),
                             {{from, nullptr, bytes, 0}, {nullptr, to, bytes, 0}}, [=](const auto& calls) {
        const std::string given = all_given(calls)[root];
        for (const Call* each : calls) emulated_write(each->parts[1].to, given);
    }, 0});
}

int ncclGroupStart() { ++depth; return OK; }
int ncclGroupEnd() {
    if (!depth || --depth) return depth ? OK : INVALID_ARGUMENT;
    int status = OK;
    for (const Sent& each : std::exchange(group, {}))
        status = std::max(status, call(each.communicator, each.stream, each.call, each.more));
    return status;
}
static int send_or_receive(Part part, int type, Communicator* of, void* stream) {
    if (is_wrong(type) || part.peer < 0 || part.peer >= of->world->size) return INVALID_ARGUMENT;
    ncclGroupStart();
    const bool goes_on = !group.empty() && group.back().communicator == of && group.back().stream == stream;
    if (!goes_on || group.back().call.kind != "a group") group.push_back({of, stream, {"a group", {}, exchange, 0}, ""});
    Sent& last = group.back();
    last.call.parts.push_back(part);
    last.more += (part.from ? " to " : " from ") + std::to_string(part.peer) + ":" + std::to_string(part.bytes);
    return ncclGroupEnd();
}
int ncclSend(const void* from, size_t count, int type, int peer, Communicator* of, void* stream) {
    return send_or_receive({from, nullptr, count * TYPES[type].size, peer}, type, of, stream);
}
int ncclRecv(void* to, size_t count, int type, int peer, Communicator* of, void* stream) {
    return send_or_receive({nullptr, to, count * TYPES[type].size, peer}, type, of, stream);
}

} // extern "C"
