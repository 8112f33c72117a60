// The graphs and kernels of `millrace bench metg` on StarPU (1.3 or later), through its C API.
//
// Build, with Debian's packages g++, pkg-config and libstarpu-dev:
//
//     g++ -std=c++17 -O3 -march=native metg_starpu.cpp -o metg_starpu $(pkg-config --cflags --libs starpu-1.3)
//
// and run `millrace bench metg --peers DIR`, where DIR has `metg_starpu`, which then calls
//
//     metg_starpu WORKERS PATTERN KERNEL WIDTH TIMESTEPS ITERATIONS
//
// with STARPU_NCPU=WORKERS. The submitting thread comes on top of these workers, as is StarPU's
// way. STARPU_SCHED chooses the scheduler. It prints one line: the wall time of a run, after one
// that checks the order and one that finds the memory, and the floating-point operations or bytes
// of one iteration.
//
// What must stay as in experiments/src/bench/metg: patterns and their seed (pattern.rs), kernels
// and the working set (kernel.rs), two output cells per column and the test of each input
// (graph.rs).
#include <starpu.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

// ---- patterns ------------------------------------------------------------------------------

constexpr uint64_t SEED = 2020;
constexpr size_t RANDOM_SETS = 3;
constexpr size_t REACH = 2;

uint64_t mix(uint64_t state) {  // one step of SplitMix64
  uint64_t bits = state + 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

bool draw(uint64_t set, uint64_t column, uint64_t from) {
  uint64_t hash = SEED;
  for (uint64_t word : {set, column, from}) hash = mix(hash ^ word);
  return hash >> 62 == 0;
}

size_t sets_of(const std::string &pattern, size_t width) {
  if (pattern == "random_nearest") return RANDOM_SETS;
  size_t sets = 0;
  if (pattern == "fft")
    while ((size_t{1} << sets) < width) sets++;
  return std::max<size_t>(sets, 1);
}

// The dependence set of a timestep from 1 on.
size_t set_at(const std::string &pattern, uint64_t step, size_t sets) {
  return (pattern == "fft" ? step - 1 : step) % sets;
}

// Columns that `column` depends on; false for a pattern that does not exist.
bool predecessors(const std::string &pattern, size_t set, size_t column, size_t width,
                  std::vector<size_t> &out) {
  auto around = [&](size_t reach) {
    for (size_t from = column > reach ? column - reach : 0; from <= std::min(column + reach, width - 1); from++)
      if (pattern != "random_nearest" || from == column || draw(set, column, from)) out.push_back(from);
  };
  if (pattern == "trivial") return true;
  if (pattern == "stencil_1d") return around(1), true;
  if (pattern == "nearest" || pattern == "random_nearest") return around(REACH), true;
  if (pattern == "all_to_all") return around(width), true;
  if (pattern == "fft") {
    size_t distance = size_t{1} << set;
    if (column >= distance) out.push_back(column - distance);
    out.push_back(column);
    if (column + distance < width) out.push_back(column + distance);
    return true;
  }
  return false;
}

// ---- kernels -------------------------------------------------------------------------------

typedef double Register __attribute__((vector_size(32)));
constexpr size_t LANES = sizeof(Register) / sizeof(double);
constexpr size_t CHAINS = 12;
constexpr size_t PIECE = 32;              // values of one iteration of the memory kernel
constexpr size_t WORKING_SET = 1 << 23;   // values of a worker's working set

double sum_of(Register r) { return (r[0] + r[1]) + (r[2] + r[3]); }

__attribute__((noinline)) double compute(uint32_t iterations) {
  const Register factor = {0.5, 0.5, 0.5, 0.5}, term = {1, 1, 1, 1};
  Register chains[CHAINS];
  for (size_t i = 0; i < CHAINS; i++) chains[i] = term * (1.0 + (double)i / CHAINS);
  for (uint32_t k = 0; k < iterations; k++)
#pragma GCC unroll 12
    for (size_t i = 0; i < CHAINS; i++) chains[i] = chains[i] * factor + term;
  Register sum = {};
  for (const Register &chain : chains) sum += chain;
  return sum_of(sum);
}

__attribute__((noinline)) double read_pieces(const double *set, size_t first, uint32_t pieces) {
  const size_t all = WORKING_SET / PIECE;
  size_t at = first, left = pieces;
  double sum = 0;
  while (left > 0) {
    const size_t stretch = std::min(left, all - at);
    const Register *values = reinterpret_cast<const Register *>(set + at * PIECE);
    Register sums[4] = {};
    for (size_t i = 0; i < stretch * PIECE / LANES; i += 4)
#pragma GCC unroll 4
      for (size_t j = 0; j < 4; j++) sums[j] += values[i + j];
    sum += sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    at = 0;
    left -= stretch;
  }
  return sum;
}

// ---- the graph -----------------------------------------------------------------------------

struct alignas(64) Cell {
  uint64_t step, column;
  double result;
};

bool g_memory = false;
uint32_t g_iterations = 0;
std::atomic<uint64_t> g_wrong{0};
std::atomic<uint64_t> g_strange{0};
// For the check: when each task of the first run ran; empty otherwise.
std::vector<std::atomic<uint64_t>> g_stamps;
std::atomic<uint64_t> g_clock{1};
std::atomic<uint64_t> g_repeated{0};
size_t g_width = 0, g_sets = 0;
std::string g_pattern;
std::vector<std::vector<std::vector<size_t>>> g_before;  // by dependence set and column

// The columns that `column` depends on in timestep `step` of a run.
const std::vector<size_t> &before(uint64_t step, size_t column) {
  static const std::vector<size_t> none;
  return step == 0 ? none : g_before[set_at(g_pattern, step, g_before.size())][column];
}

// A task's argument is its timestep, counted over all runs, and its column, in one word.
constexpr unsigned COLUMN_BITS = 16;

void body(void *buffers[], void *argument) {
  const uint64_t word = (uint64_t)(uintptr_t)argument;
  const uint64_t step = word >> COLUMN_BITS, column = word & ((1u << COLUMN_BITS) - 1);
  const unsigned count = STARPU_TASK_GET_NBUFFERS(starpu_task_get_current());
  const unsigned inputs = g_memory ? 2 : 1;
  for (unsigned i = inputs; i < count; i++)
    if (reinterpret_cast<Cell *>(STARPU_VARIABLE_GET_PTR(buffers[i]))->step != step) g_wrong++;
  Cell *output = reinterpret_cast<Cell *>(STARPU_VARIABLE_GET_PTR(buffers[0]));
  if (!g_stamps.empty()) {
    const std::vector<size_t> &from = before(step, column);
    for (unsigned i = inputs; i < count; i++)
      if (reinterpret_cast<Cell *>(STARPU_VARIABLE_GET_PTR(buffers[i]))->column != from[i - inputs]) g_strange++;
    if (count - inputs != from.size()) g_strange++;
    if (g_stamps[step * g_width + column].exchange(g_clock++) != 0) g_repeated++;
  } else if (g_memory) {
    constexpr uint64_t pieces = WORKING_SET / PIECE;
    const uint64_t turn = step * ((g_width + g_sets - 1) / g_sets) + column / g_sets;
    const size_t first = turn % pieces * g_iterations % pieces;
    const double *set = reinterpret_cast<const double *>(STARPU_VECTOR_GET_PTR(buffers[1]));
    output->result = read_pieces(set, first, g_iterations);
  } else {
    output->result = compute(g_iterations);
  }
  output->column = column;
  output->step = step + 1;
}

struct Graph {
  std::vector<starpu_data_handle_t> cells[2], sets;
  std::vector<starpu_codelet> codelets;  // by number of buffers; the last for any number
  uint64_t steps = 0;

  void submit(uint64_t base, uint64_t step, size_t column) {
    starpu_data_handle_t handles[STARPU_NMAXBUFS];
    std::vector<starpu_data_descr> many;
    const std::vector<size_t> &from = before(step - base, column);
    const size_t inputs = g_memory ? 2 : 1, count = inputs + from.size();
    void *argument = (void *)(uintptr_t)(step << COLUMN_BITS | column);
    auto handle = [&](size_t i) {
      if (i == 0) return cells[step % 2][column];
      return i < inputs ? sets[column % g_sets] : cells[(step + 1) % 2][from[i - inputs]];
    };
    int refused;
    if (count <= STARPU_NMAXBUFS) {
      for (size_t i = 0; i < count; i++) handles[i] = handle(i);
      starpu_task *task = starpu_task_create();
      std::copy(handles, handles + count, task->handles);
      task->cl = &codelets[count];
      task->cl_arg = argument;
      refused = starpu_task_submit(task);
    } else {
      for (size_t i = 0; i < count; i++) many.push_back({handle(i), i == 0 ? STARPU_W : STARPU_R});
      refused = starpu_task_insert(&codelets.back(), STARPU_DATA_MODE_ARRAY, many.data(),
                                   (int)count, STARPU_CL_ARGS_NFREE, argument, (size_t)0, 0);
    }
    if (refused) {
      fprintf(stderr, "StarPU refused a task: %d\n", refused);
      exit(1);
    }
  }

  // Nanoseconds from the first submission until all tasks have ended.
  double run(uint64_t timesteps) {
    const uint64_t base = steps;
    steps += timesteps;
    auto start = std::chrono::steady_clock::now();
    for (uint64_t step = base; step < steps; step++)
      for (size_t column = 0; column < g_width; column++) submit(base, step, column);
    starpu_task_wait_for_all();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  }

  // Runs once with stamps; false when a task did not run, ran twice or ran too early.
  bool check(uint64_t timesteps) {
    g_stamps = std::vector<std::atomic<uint64_t>>(timesteps * g_width);
    run(timesteps);
    uint64_t lost = 0, broken = 0;
    for (uint64_t step = 0; step < timesteps; step++)
      for (size_t column = 0; column < g_width; column++) {
        const uint64_t stamp = g_stamps[step * g_width + column];
        lost += stamp == 0;
        for (size_t from : before(step, column)) broken += g_stamps[(step - 1) * g_width + from] >= stamp;
      }
    g_stamps.clear();
    if (lost + broken + g_repeated + g_strange == 0) return true;
    printf("WRONG: %" PRIu64 " tasks did not run, %" PRIu64 " ran twice, %" PRIu64
           " dependencies were not kept, %" PRIu64 " inputs were of other columns\n",
           lost, g_repeated.load(), broken, g_strange.load());
    return false;
  }
};

// A number from 1 to `most`, or the end of the program.
uint64_t number(const char *text, uint64_t most) {
  char *end = nullptr;
  const unsigned long long value = strtoull(text, &end, 10);
  if (end != text && *end == 0 && value >= 1 && value <= most) return value;
  fprintf(stderr, "`%s` is no number from 1 to %" PRIu64 "\n", text, most);
  exit(2);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 7) {
    fprintf(stderr, "usage: metg_starpu WORKERS PATTERN KERNEL WIDTH TIMESTEPS ITERATIONS\n");
    return 2;
  }
  const uint64_t workers = number(argv[1], 1024);
  const std::string pattern = g_pattern = argv[2], kernel = argv[3];
  g_width = number(argv[4], (1u << COLUMN_BITS) - 1);
  const uint64_t timesteps = number(argv[5], 10000000);
  g_iterations = (uint32_t)number(argv[6], UINT32_MAX);
  g_memory = kernel == "memory";
  g_sets = g_memory ? workers : 0;

  Graph graph;
  g_before.resize(sets_of(pattern, g_width), std::vector<std::vector<size_t>>(g_width));
  for (size_t set = 0; set < g_before.size(); set++)
    for (size_t column = 0; column < g_width; column++)
      if (!predecessors(pattern, set, column, g_width, g_before[set][column])) {
        fprintf(stderr, "unknown pattern %s\n", pattern.c_str());
        return 2;
      }
  if (!g_memory && kernel != "compute") {
    fprintf(stderr, "unknown kernel %s\n", kernel.c_str());
    return 2;
  }
  if (starpu_init(nullptr)) return 1;
  if (starpu_cpu_worker_get_count() != workers) {
    fprintf(stderr, "%u workers, not %" PRIu64 "\n", starpu_cpu_worker_get_count(), workers);
    return 1;
  }

  graph.codelets.resize(STARPU_NMAXBUFS + 2);
  for (size_t count = 0; count < graph.codelets.size(); count++) {
    starpu_codelet &codelet = graph.codelets[count];
    starpu_codelet_init(&codelet);
    codelet.cpu_funcs[0] = body;
    codelet.name = "task";
    codelet.nbuffers = count <= STARPU_NMAXBUFS ? (int)count : STARPU_VARIABLE_NBUFFERS;
    for (size_t i = 0; i < count && count <= STARPU_NMAXBUFS; i++)
      codelet.modes[i] = i == 0 ? STARPU_W : STARPU_R;
  }
  std::unique_ptr<Cell[]> memory(new Cell[2 * g_width]());
  for (size_t i = 0; i < 2 * g_width; i++) {
    starpu_data_handle_t handle;
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&memory[i], sizeof(Cell));
    graph.cells[i % 2].push_back(handle);
  }
  std::vector<std::unique_ptr<double, decltype(&free)>> sets;
  for (size_t i = 0; i < g_sets; i++) {
    constexpr size_t bytes = WORKING_SET * sizeof(double), page = size_t{2} << 20;
    double *set = static_cast<double *>(aligned_alloc(page, bytes));
    if (!set) return 1;
    madvise(set, bytes, MADV_HUGEPAGE);  // as Millrace's arenas do
    std::fill(set, set + WORKING_SET, 1.0);
    sets.emplace_back(set, &free);
    starpu_data_handle_t handle;
    starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)set, WORKING_SET, sizeof(double));
    graph.sets.push_back(handle);
  }

  bool right = graph.check(std::min<uint64_t>(timesteps, 200));
  if (right) graph.run(std::min<uint64_t>(timesteps, 200));
  const double wall = right ? graph.run(timesteps) : 0;
  if (g_wrong) {
    printf("WRONG: %" PRIu64 " inputs were not of the timestep before\n", g_wrong.load());
    right = false;
  }
  for (auto &row : graph.cells)
    for (auto handle : row) starpu_data_unregister(handle);
  for (auto handle : graph.sets) starpu_data_unregister(handle);
  starpu_shutdown();
  if (!right) return 1;

  const char *scheduler = getenv("STARPU_SCHED");
  const size_t work = g_memory ? PIECE * sizeof(double) : 2 * CHAINS * LANES;
  printf("starpu-%s %s kernel=%s w=%" PRIu64 " width=%zu timesteps=%" PRIu64
         " iterations=%u wall_ns=%.0f work=%zu\n",
         scheduler ? scheduler : "default", pattern.c_str(), kernel.c_str(), workers, g_width,
         timesteps, g_iterations, wall, work);
  return 0;
}
