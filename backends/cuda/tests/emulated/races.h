/* Races: two accesses to a byte, one of them a write, that nothing orders. Threads take turns here, and what a GPU may mix up
 * comes out right, so the last accesses to each byte are kept, and the next is compared with them.
 *
 * __syncthreads() orders the threads of a block, and __syncwarp() those of a warp; a shuffle orders nothing. A block that
 * calls __threadfence() and then an atomic function comes before one that calls an atomic function and then
 * __threadfence(): so the last block may add up what all have written. A launch comes after the one before. */

typedef struct { u32 thread, barrier : 20, warp : 11, atomic : 1; } Access; /* `thread` is its number in the grid, and 1 */
typedef struct { Access write, read, another; } Cell;                       /* the last of each; another thread's read */
enum { SPAN = 1024, SPANS = 1 << 15 };
static struct { u64 number; Cell* cells; } spans[SPANS]; /* of global memory: a table with open addresses */
static Cell shared_cells[1 << 20];
/* `used` spans; `released` are of each block the last accesses that come before those of blocks that acquire. */
static struct { const char* kernel; u64 shared; u32 threads, used; Access* released; } in_grid;
static struct { u32 number, met, acquired, warps[1024 / WARP], fences[1024]; Access now; } in_block;

static void begin_grid(const char* kernel, u64 blocks, u32 threads, const char* shared) {
    for (u32 i = 0; in_grid.used && i < SPANS; ++i) free(spans[i].cells), spans[i].cells = NULL;
    free(in_grid.released);
    in_grid = (typeof(in_grid)){kernel, (u64)shared, threads, 0, calloc(blocks, sizeof(Access))};
}
static void begin_block(u32 number, size_t shared) {
    in_block = (typeof(in_block)){.number = number};
    memset(shared_cells, 0, shared * sizeof(Cell));
}
static void begin_turn(u32 thread) {
    in_block.now.thread = in_block.number * in_grid.threads + thread + 1;
    in_block.now.warp = in_block.warps[thread / WARP];
}

static Cell* cell_of(u64 address) {
    if (!(address >> 32)) return shared_cells + (address - in_grid.shared);
    const u64 number = address / SPAN;
    for (u64 i = mixed(number);; ++i) {
        Cell** cells = &spans[i % SPANS].cells;
        if (!*cells) {
            if (in_grid.used == SPANS / 2) return NULL; /* 16 MiB: what a launch accesses beyond that is not looked at */
            spans[i % SPANS].number = number, *cells = calloc(SPAN, sizeof(Cell)), ++in_grid.used;
        }
        if (spans[i % SPANS].number == number) return *cells + address % SPAN;
    }
}
static u32 block_of(Access it) { return (it.thread - 1) / in_grid.threads; }
static u32 index_of(Access it) { return (it.thread - 1) % in_grid.threads; }
/* Whether an access happened, if at all, before what the thread does whose turn it is. */
static int is_before(Access it) {
    const Access now = in_block.now;
    if (!it.thread || it.thread == now.thread) return 1;
    if (block_of(it) == in_block.number)
        return it.barrier != now.barrier || (index_of(it) / WARP == index_of(now) / WARP && it.warp != now.warp);
    const Access last = in_grid.released[block_of(it)];
    return in_block.acquired && (it.barrier < last.barrier || it.thread == last.thread);
}
static void compare(Access it, const char* kind, u64 address) {
    if (is_before(it)) return;
    const int shared = !(address >> 32);
    fail("race: %s of %s memory at %#llx, by thread %u of block %u and thread %u of block %u, in %s", kind,
         shared ? "shared" : "global", (unsigned long long)(shared ? address - in_grid.shared : address),
         index_of(in_block.now), in_block.number, index_of(it), block_of(it), in_grid.kernel);
}
static void touch(int what, u64 address, u32 bytes) {
    for (Cell* cell = cell_of(address); cell && bytes--; ++cell, ++address) {
        if (what != ATOMIC || !cell->write.atomic)
            compare(cell->write, what == READS ? "read after write" : "write after write", address);
        if (what == READS) {
            const int own = !cell->another.thread || block_of(cell->another) == in_block.number; /* another block's is kept */
            if (cell->read.thread != in_block.now.thread && own) cell->another = cell->read;
            cell->read = in_block.now;
            continue;
        }
        compare(cell->read, "write after read", address), compare(cell->another, "write after read", address);
        cell->write = in_block.now, cell->write.atomic = what == ATOMIC;
    }
    if (what != ATOMIC || !(address >> 32)) return;
    const u32 fence = in_block.fences[index_of(in_block.now)];
    if (fence) in_grid.released[in_block.number] = (Access){in_block.now.thread, fence - 1};
    in_block.met = 1;
}
static void fence(void) {
    in_block.fences[index_of(in_block.now)] = in_block.now.barrier + 1;
    in_block.acquired |= in_block.met;
}
