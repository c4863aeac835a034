/* rushlight.h -- open PyTorch programs and run them, without PyTorch.
 *
 * The main task in five calls (error checks left out):
 *
 *   rush_module *m;
 *   rush_value x, y;
 *   rush_module_load(NULL, "model.pt", NULL, &m, &err);
 *   rush_tensor_wrap(NULL, RUSH_FLOAT32, 2, sizes, NULL, p, NULL, NULL, &x, &err);
 *   rush_module_call(m, "forward", &x, 1, &y, &err);
 *   ... = rush_tensor_data(y.as.tensor);
 *   rush_value_release(y);
 *   rush_value_release(x);
 *   rush_module_release(m);
 *
 * Ownership.  Three words are used, each in one sense.  *new*: the caller releases the result.
 * *borrowed*: the result is valid while the object it came from lives.  *steals*: the callee owns
 * the argument even when it fails.  An argument without any of these words is borrowed for the
 * call. Out-parameters are written only on success, and may be NULL if the result is not wanted
 * (the result of the call is then released), except for functions that only create something
 * (create, load, wrap).  Releasing NULL (or a value without a heap part) does nothing.
 *
 * Errors.  Functions that can fail return a status and fill a `rush_error` that the caller owns
 * (pass NULL to ignore it).  No function prints, aborts, exits, or keeps a "last error".
 *
 * Contexts.  A NULL context argument means the default context, which is created at first use.  A
 * context outlives every value made in it; modules keep a reference to theirs.
 *
 * Threads.  Contexts, programs, modules and generators are locked internally: any number of threads
 * may use them. Calls that change a module's state run alone, other calls run together.  Reading
 * and writing the state from outside (rush_module_get_state, set_state, state_at, attributes of the
 * module's object and of the objects below it, saving, copying, freezing, dumps) takes the same
 * lock, which is shared by modules around parts of one module.  A list, dict or tuple that is read
 * from the state, or that a method returns while the module still holds it, is a copy made under
 * the lock (as in PyTorch's Python interface): later calls do not change it.  Tensors and objects
 * are not copied. Objects inside a list that a method made, and objects held by two modules with
 * different locks, are not protected.  A callback may call into the module that called it. Waiting
 * for a lock ends at the call's deadline or when the call is cancelled.  A single value, including
 * a tensor's elements, may be used by one thread at a time, or by several if none writes to it.
 *
 * Forks.  A child of fork() can use the library as its parent could: it keeps the contexts, modules
 * and tensors, and starts threads of its own when they are needed.  Whatever another thread was
 * changing or compiling at the moment of the fork remains unfinished: in the child, calls of such a
 * module fail (RUSH_ERAISED: load it again); other modules work.
 *
 * Versions.  Structs that can grow begin with `struct_bytes`, the size that the caller compiled:
 * start from their _INIT macro, or set struct_bytes to sizeof and everything else to zero.  In a
 * smaller struct the missing fields count as zero (a missing callback counts as NULL; if it is
 * required, the error names it).  A larger struct is accepted if its unknown fields are zero, and
 * refused otherwise (RUSH_EARGUMENT).  A function that fills a struct fills only the first
 * struct_bytes of it.  New fields are added at the end.
 *
 * Units: sizes and strides are in elements, `_bytes` in bytes, times in seconds. */
#ifndef RUSHLIGHT_H
#define RUSHLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(RUSH_BUILD) && (defined(__GNUC__) || defined(__clang__))
#define RUSH_API __attribute__((visibility("default")))
#else
#define RUSH_API
#endif

#if defined(__GNUC__) || defined(__clang__)
#define RUSH_CHECKED __attribute__((warn_unused_result))
#define RUSH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RUSH_CHECKED
#define RUSH_PRINTF(fmt, args)
#endif

#define RUSH_VERSION_MAJOR 0
#define RUSH_VERSION_MINOR 1
#define RUSH_VERSION_PATCH 0

/* The library's version, "0.1.0": a static string. */
RUSH_API const char *rush_version(void);

/* -- Status and errors ------------------------------------------------------------------------- */

typedef enum rush_status {
  RUSH_OK = 0,
  RUSH_ERAISED,      /* the program raised, or an operator refused its arguments */
  RUSH_EARGUMENT,    /* the caller's argument is wrong: type, count, name */
  RUSH_EFORMAT,      /* a file is damaged or not what it should be */
  RUSH_EIO,          /* the operating system refused */
  RUSH_EUNSUPPORTED, /* known, but this build cannot do it: the message names it */
  RUSH_ELIMIT,       /* a limit of time, bytes, depth or count was reached */
  RUSH_ECANCELLED,   /* rush_cancel */
  RUSH_ENOMEM,       /* the allocator returned NULL */
  RUSH_EINTERNAL     /* our fault: please report */
} rush_status;

/* Which limit RUSH_ELIMIT is about. */
typedef enum rush_limit {
  RUSH_LIMIT_NONE = 0,
  RUSH_LIMIT_SECONDS, /* limit_seconds of the context or of the call */
  RUSH_LIMIT_BYTES,   /* limit_bytes */
  RUSH_LIMIT_DEPTH,   /* limit_depth */
  RUSH_LIMIT_STACK,   /* stack_bytes, or what the thread has */
  RUSH_LIMIT_OTHER    /* one that is fixed (docs/security.md): of sizes, counts, nesting */
} rush_limit;

/* Belongs to the caller: start with RUSH_ERROR_INIT, rush_error_clear when done.  Reusable. */
typedef struct rush_error {
  rush_status status;
  rush_limit limit;      /* of RUSH_ELIMIT; else RUSH_LIMIT_NONE */
  const char *type; /* Python exception class: "RuntimeError", "IndexError", "Error" ...; static */
  const char *message;   /* expected and actual value, and place; NULL if status is RUSH_OK */
  const char *traceback; /* TorchScript traceback, or NULL */
  void *owned;           /* internal */
} rush_error;

#define RUSH_ERROR_INIT {RUSH_OK, RUSH_LIMIT_NONE, NULL, NULL, NULL, NULL}

/* Free what the error holds and make it RUSH_ERROR_INIT again. */
RUSH_API void rush_error_clear(rush_error *err);
/* A word for the status, "out of memory": a static string. */
RUSH_API const char *rush_status_name(rush_status status);

/* -- Data types -------------------------------------------------------------------------------- */

/* PyTorch's ScalarType numbers; the same integers that TorchScript code uses for dtypes. */
typedef enum rush_dtype {
  RUSH_UINT8 = 0,
  RUSH_INT8 = 1,
  RUSH_INT16 = 2,
  RUSH_INT32 = 3,
  RUSH_INT64 = 4,
  RUSH_FLOAT16 = 5,
  RUSH_FLOAT32 = 6,
  RUSH_FLOAT64 = 7,
  RUSH_COMPLEX32 = 8,
  RUSH_COMPLEX64 = 9,
  RUSH_COMPLEX128 = 10,
  RUSH_BOOL = 11,
  RUSH_QINT8 = 12,
  RUSH_QUINT8 = 13,
  RUSH_QINT32 = 14,
  RUSH_BFLOAT16 = 15,
  RUSH_QUINT4X2 = 16,
  RUSH_FLOAT8_E5M2 = 23,
  RUSH_FLOAT8_E4M3FN = 24,
  RUSH_FLOAT8_E5M2FNUZ = 25,
  RUSH_FLOAT8_E4M3FNUZ = 26,
  RUSH_UINT16 = 27,
  RUSH_UINT32 = 28,
  RUSH_UINT64 = 29
} rush_dtype;

/* All numbers of dtypes are smaller. */
#define RUSH_N_DTYPES 30

/* "float32", or NULL for a number that is no dtype.  Static. */
RUSH_API const char *rush_dtype_name(rush_dtype dtype);
/* "Float", PyTorch's name of the ScalarType, or NULL for a number that is no dtype.  Static. */
RUSH_API const char *rush_dtype_scalar_type(rush_dtype dtype);
/* Bytes of one element; 0 if the number is not a dtype. */
RUSH_API size_t rush_dtype_bytes(rush_dtype dtype);

/* -- Values ------------------------------------------------------------------------------------ */

typedef struct rush_context rush_context;
typedef struct rush_tensor rush_tensor;
typedef struct rush_module rush_module;
typedef struct rush_string rush_string;
typedef struct rush_list rush_list;
typedef struct rush_tuple rush_tuple;
typedef struct rush_dict rush_dict;
typedef struct rush_object rush_object;

typedef enum rush_tag {
  RUSH_TAG_NONE = 0,
  RUSH_TAG_TENSOR,    /* as.tensor; NULL is PyTorch's undefined tensor */
  RUSH_TAG_BOOL,      /* as.b */
  RUSH_TAG_INT,       /* as.i; also dtypes, layouts and memory formats, by PyTorch's numbers */
  RUSH_TAG_FLOAT,     /* as.d */
  RUSH_TAG_COMPLEX,   /* rush_value_complex */
  RUSH_TAG_STRING,    /* as.string */
  RUSH_TAG_LIST,      /* as.list */
  RUSH_TAG_TUPLE,     /* as.tuple */
  RUSH_TAG_DICT,      /* as.dict */
  RUSH_TAG_OBJECT,    /* as.object: an instance of a script class, or a module */
  RUSH_TAG_ENUM,      /* a member of a script enum */
  RUSH_TAG_DEVICE,    /* as.i: type in the high 32 bits, index (or -1) in the low */
  RUSH_TAG_GENERATOR, /* a random generator */
  RUSH_TAG_FUTURE,    /* the result of fork */
  RUSH_TAG_CUSTOM,    /* instance of a registered custom class */
  RUSH_TAG_STORAGE,   /* an untyped storage */
  RUSH_TAG_FUNCTION,  /* a function of a program */
  RUSH_TAG_UNSET      /* internal: an attribute or variable that was never set */
} rush_tag;

/* PyTorch's IValue.  16 bytes, copied freely; each function documents the ownership of the heap
 * part. */
typedef struct rush_value {
  uint32_t tag; /* rush_tag */
  uint32_t aux; /* 0 */
  union {
    bool b;
    int64_t i;
    double d;
    rush_tensor *tensor;
    rush_string *string;
    rush_list *list;
    rush_tuple *tuple;
    rush_dict *dict;
    rush_object *object;
    void *heap;
  } as;
} rush_value;

/* Add a reference to the heap part, if there is one.  Returns v. */
RUSH_API rush_value rush_value_retain(rush_value v);
/* Drop a reference to the heap part, if there is one. */
RUSH_API void rush_value_release(rush_value v);

static inline rush_value rush_value_none(void)
{
  rush_value v = {RUSH_TAG_NONE, 0, {false}};
  v.as.i = 0;
  return v;
}
static inline rush_value rush_value_bool(bool b)
{
  rush_value v = {RUSH_TAG_BOOL, 0, {false}};
  v.as.i = b ? 1 : 0;
  return v;
}
static inline rush_value rush_value_int(int64_t i)
{
  rush_value v = {RUSH_TAG_INT, 0, {false}};
  v.as.i = i;
  return v;
}
static inline rush_value rush_value_float(double d)
{
  rush_value v = {RUSH_TAG_FLOAT, 0, {false}};
  v.as.d = d;
  return v;
}

/* -- Contexts ---------------------------------------------------------------------------------- */

/* The highest instruction set to use: all that the CPU has (0), or less, for comparison. */
typedef enum rush_cpu {
  RUSH_CPU_NATIVE,
  RUSH_CPU_PORTABLE,
  RUSH_CPU_AVX2,
  RUSH_CPU_AVX512
} rush_cpu;

/* Largest stack use, in bytes, of one call of a program without recursion in release builds.
 * Threads with 64 KB stacks are large enough: this includes the system's part of the thread and a
 * few frames of the caller. */
#define RUSH_STACK_CALL 32768
#define RUSH_STACK_FIRST_CALL 57344 /* the first call of a method, which compiles it */

/* How programs run.  The results are the same with each. */
typedef enum rush_executor {
  RUSH_EXECUTOR_DEFAULT, /* the fastest: RUSH_EXECUTOR_PROFILING */
  RUSH_EXECUTOR_SIMPLE,  /* run graphs as they are, operator by operator */
  /* passes group operators; each group is compiled for the kinds of its arguments; plans for the
   * facts of arguments (docs/executors.md) */
  RUSH_EXECUTOR_SPECIALISING,
  /* and for facts of other values, recorded during a first call and guarded in later ones */
  RUSH_EXECUTOR_PROFILING
} rush_executor;

/* Start from RUSH_CONTEXT_OPTIONS_INIT; zero means the default for every field. */
typedef struct rush_context_options {
  size_t struct_bytes;   /* sizeof(rush_context_options) */
  void *(*alloc)(void *user, size_t n_bytes); /* 16-byte aligned; NULL: malloc */
  void (*free)(void *user, void *p, size_t n_bytes);
  void *alloc_user;
  size_t limit_bytes;    /* limit on all memory of the context; 0: none */
  double limit_seconds;  /* time limit of each outer call; 0: none */
  uint32_t limit_depth;  /* limit on recursion and nesting */
  int n_threads;
  void (*print)(void *user, const char *text,
                size_t n_bytes); /* receives what programs print(); NULL: stdout */
  void (*warn)(void *user, const char *text);                  /* receives warnings; NULL: stderr */
  void *callback_user;
  rush_cpu cpu;
  bool no_reuse;         /* never let an operator write into the buffer of a dying argument */
  rush_executor executor;
  /* Bytes of stack that an outer call may use, counted from where it enters the library; 0: 262144
   * (256 KB).  A program without recursion needs RUSH_STACK_CALL of them, and RUSH_STACK_FIRST_CALL
   * for the call that compiles it.  Deeper recursion (deep programs, deep values) fails with
   * RUSH_ELIMIT, a RecursionError, 16 KB before the limit.  On a thread's own stack the remaining
   * stack of the thread also limits a call, so a large number is safe.  On any other stack (a fiber
   * or coroutine) the library cannot find the size: pass the number of bytes that a call finds
   * left, if that is less than 256 KB. */
  size_t stack_bytes;
  /* return freed tensor data to the allocator at once: for allocators that cache themselves, and to
   * find leaks */
  bool no_cache;
  /* 1: make plans (docs/executors.md) at the first call with new facts, not at the second: for
   * tests, and for programs whose second call must not take long */
  size_t plan_first;
  /* 1: write the places and names of compiled code to /tmp/perf-PID.map, where Linux's perf looks
   * for them; the file stays */
  size_t perf_map;
} rush_context_options;
#define RUSH_CONTEXT_OPTIONS_INIT                                                   \
  {                                                                                 \
    sizeof(rush_context_options), NULL, NULL, NULL, 0, 0.0, 0, 0, NULL, NULL, NULL, \
      RUSH_CPU_NATIVE, false, RUSH_EXECUTOR_DEFAULT, 0, false, 0, 0             \
  }

/* Create a context.  `options` NULL: all defaults.  *out is new. */
RUSH_API rush_status rush_context_create(const rush_context_options *options, rush_context **out,
                                         rush_error *err) RUSH_CHECKED;
RUSH_API void rush_context_release(rush_context *c);
/* Release the default context.  Its memory and threads are freed once the modules that refer to it
 * are released. The next use of a NULL context makes a new one.  Do not call this while the default
 * context is in use; release values and texts made in it before. */
RUSH_API void rush_context_release_default(void);
/* Choose how calls make plans from now on, in all threads (docs/executors.md): not at all (`off`:
 * the code that runs is that of any arguments), or at most n_exact for the sizes that arguments of
 * the same dtypes and ranks have had, and n_wide behind them that leave sizes open (0: none).  At
 * first 1 and 1.  PyTorch's STATIC and DYNAMIC of set_fusion_strategy. */
RUSH_API void rush_context_set_plan_limits(rush_context *c, bool off, int n_exact, int n_wide);
RUSH_API void rush_context_get_plan_limits(rush_context *c, bool *off, int *n_exact, int *n_wide);
/* Choose the dtype of tensors that are made of floats, of integers that become floats, and where
 * none is given, from now on, in all threads: a floating-point one, at first RUSH_FLOAT32; else
 * nothing changes and the result is false.  With another one than RUSH_FLOAT32, calls run the code
 * of any arguments, without plans.  PyTorch's set_default_dtype. */
RUSH_API bool rush_context_set_default_dtype(rush_context *c, rush_dtype dtype);
RUSH_API rush_dtype rush_context_get_default_dtype(rush_context *c);
/* Set if plans of recorded calls, from now on, leave single operators to records of their own (at
 * first true), or make them parts that are differentiated as one, too (docs/executors.md).  Returns
 * the setting before; results do not depend on it.  PyTorch's
 * _debug_set_autodiff_subgraph_inlining. */
RUSH_API bool rush_context_set_subgraph_inlining(rush_context *c, bool on);
/* For tests of guards: from now on functions that run for the first time get guards behind all
 * their nodes, and guards fail although they hold: about every third, by random numbers of `seed`,
 * or the nth one that is checked.  Results stay the same.  0 and 0: none fail. */
RUSH_API void rush_context_set_guard_failures(rush_context *c, uint64_t seed, uint64_t nth);
/* Set the number of threads that operators may use, at least 1; it includes the calling thread. */
RUSH_API void rush_context_set_threads(rush_context *c, int n_threads);
RUSH_API int rush_context_get_threads(rush_context *c);
/* Select another instruction set than the options did, for comparison: results have the same bits
 * with each.  Do not call this while calls run; machine code that a program already has is kept. If
 * the machine lacks the set, the highest available one is used; rush_context_get_cpu returns it. */
RUSH_API rush_status rush_context_set_cpu(rush_context *c, rush_cpu cpu,
                                          rush_error *err) RUSH_CHECKED;
RUSH_API rush_cpu rush_context_get_cpu(rush_context *c);
/* Select another executor than the options did, for comparison: results have the same bits with
 * each.  Do not call this while calls run; functions that were called before keep the code that
 * they have. */
RUSH_API rush_status rush_context_set_executor(rush_context *c, rush_executor executor,
                                               rush_error *err) RUSH_CHECKED;
RUSH_API rush_executor rush_context_get_executor(rush_context *c);
/* Run kernels on the host's threads instead of the library's, which end.  run(user, fn, arg, n)
 * must call fn(arg, i) for every i in [0, n), with n at most n_threads, on any threads and in any
 * order (sequentially too), and return when all calls have returned.  Only one run is active at a
 * time: calls that arrive meanwhile from other threads work without it.  fn always returns (no
 * jump, no exception) and may take as long as a kernel does; run must not throw and must not call
 * this function or rush_context_set_threads.  `run` NULL: use the library's pool again.  The bits
 * of results do not depend on the pool.  If this is called before the context's first call, the
 * library never starts a thread. */
RUSH_API void rush_context_set_pool(rush_context *c, int n_threads,
                                    void (*run)(void *user, void (*fn)(void *arg, int i), void *arg,
                                                int n),
                                    void *user);
/* Run passes (docs/passes.md: "inline,dce") on every function that is compiled from now on, before
 * it is prepared to run: in the order of `names`, after passes that were added earlier.  Passes
 * keep the meaning of programs; this is for inspection and tests.  Do not call it while calls run.
 * RUSH_EARGUMENT: there is no pass with one of these names. */
RUSH_API rush_status rush_context_add_passes(rush_context *c, const char *names,
                                             rush_error *err) RUSH_CHECKED;
/* Seed the context's default generator, as torch.manual_seed does. */
RUSH_API rush_status rush_manual_seed(rush_context *c, uint64_t seed, rush_error *err) RUSH_CHECKED;
/* Get or set the state of the context's default generator: the RUSH_GENERATOR_STATE_BYTES bytes of
 * torch.get_rng_state().  RUSH_EARGUMENT: the bytes are not such a state. */
#define RUSH_GENERATOR_STATE_BYTES 5056
RUSH_API rush_status rush_generator_get_state(rush_context *c, void *state,
                                              rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_generator_set_state(rush_context *c, const void *state, size_t n_bytes,
                                              rush_error *err) RUSH_CHECKED;
/* Create a generator in the state given by `state`; *out is new.  rush_generator_value_state reads
 * the state of a generator and returns false if the value is not one. */
RUSH_API rush_status rush_generator_create(rush_context *c, const void *state, size_t n_bytes,
                                           rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API bool rush_generator_value_state(rush_value generator, void *state);
/* Counters of the compiler's work in a context (simultaneous calls may count as one).  Set
 * struct_bytes before the call; afterwards it is the number of bytes that were filled. */
typedef struct rush_compile_counters {
  size_t struct_bytes;
  uint64_t groups;      /* groups of operators in compiled functions */
  uint64_t plans;       /* compiled variants of groups, one per combination of argument kinds */
  uint64_t group_calls; /* calls of groups that ran as one */
  /* calls of groups, of any backend, that ran operator by operator for any reason */
  uint64_t interpreted;
  uint64_t functions;   /* methods, functions and operator bodies that were compiled to run */
} rush_compile_counters;
RUSH_API void rush_compile_stats(rush_context *c, rush_compile_counters *out);

/* Get the bytes in use, now and at most since the last reset. */
RUSH_API void rush_memory_stats(rush_context *c, size_t *live_bytes, size_t *peak_bytes);
/* Memory statistics of a context.  Mapped files are not included.  Start from RUSH_MEMORY_INIT. */
typedef struct rush_memory {
  size_t struct_bytes;
  size_t live_bytes;     /* in use */
  size_t peak_bytes;     /* the most in use since the last reset */
  /* free blocks kept for the next tensors: taken from the system, not in use */
  size_t cached_bytes;
  /* part of live_bytes: weights stored in the order in which kernels read them */
  size_t packed_bytes;
  size_t limit_bytes;    /* limit on live_bytes + cached_bytes; 0: none */
  uint64_t n_allocs;     /* allocations so far */
  uint64_t n_data;       /* the part of n_allocs that is tensor data or kernels' scratch memory */
  uint64_t n_cache_hits; /* the part of n_data that was found in the cache */
} rush_memory;
#define RUSH_MEMORY_INIT {sizeof(rush_memory), 0, 0, 0, 0, 0, 0, 0, 0}
/* Fill the first out->struct_bytes of *out.  Any thread may call this; numbers of other threads may
 * be slightly out of date. */
RUSH_API void rush_memory_get(rush_context *c, rush_memory *out);
/* Set the peak to the bytes in use now. */
RUSH_API void rush_memory_reset_peak(rush_context *c);
/* Return the cached blocks to the system. */
RUSH_API void rush_memory_trim(rush_context *c);

/* -- Tensors ----------------------------------------------------------------------------------- */

/* Create a contiguous, uninitialised tensor.  *out is new. */
RUSH_API rush_status rush_tensor_create(rush_context *c, rush_dtype dtype, int n_dims,
                                        const int64_t *sizes, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* Create a tensor over the caller's memory, which must live until deleter(user, data) is called
 * (deleter NULL: until the last tensor on it is released).  strides NULL: contiguous.  The data is
 * not copied; operators that write in place write to it. */
RUSH_API rush_status rush_tensor_wrap(rush_context *c, rush_dtype dtype, int n_dims,
                                      const int64_t *sizes, const int64_t *strides, void *data,
                                      void (*deleter)(void *user, void *data), void *user,
                                      rush_value *out, rush_error *err) RUSH_CHECKED;
/* Like rush_tensor_wrap, for a part of a larger buffer: element 0 is `offset` elements after
 * `data`, and all of the n_bytes can be reached (by as_strided, by set_).  A tensor that reaches
 * beyond them is refused. */
RUSH_API rush_status rush_tensor_wrap_part(rush_context *c, rush_dtype dtype, int n_dims,
                                           const int64_t *sizes, const int64_t *strides,
                                           int64_t offset, void *data, size_t n_bytes,
                                           void (*deleter)(void *user, void *data), void *user,
                                           rush_value *out, rush_error *err) RUSH_CHECKED;
/* Create a tensor of torch's device meta: it has sizes and strides (in elements, not negative) but
 * no data; its elements read as zero.  Attributes of modules may be meta tensors; programs that
 * need their elements fail (RUSH_ERAISED).  *out is new. */
RUSH_API rush_status rush_tensor_new_meta(rush_context *c, rush_dtype dtype, int n_dims,
                                          const int64_t *sizes, const int64_t *strides,
                                          rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API bool rush_tensor_is_meta(const rush_tensor *t);
/* Return the layout.  0: strided.  1: sparse coordinates (torch.sparse_coo).  2: sparse compressed
 * rows (torch.sparse_csr). A sparse tensor has sizes but no memory of its own; get its parts with
 * the operators aten::_indices, aten::_values, aten::crow_indices, ... */
RUSH_API int rush_tensor_layout(const rush_tensor *t);
RUSH_API rush_dtype rush_tensor_dtype(const rush_tensor *t);
RUSH_API int rush_tensor_n_dims(const rush_tensor *t);
RUSH_API const int64_t *rush_tensor_sizes(const rush_tensor *t);   /* n_dims of them, borrowed */
RUSH_API const int64_t *rush_tensor_strides(const rush_tensor *t); /* elements, borrowed */
RUSH_API int64_t rush_tensor_n_elems(const rush_tensor *t);
/* bytes of the memory shared by all views of the tensor */
RUSH_API size_t
rush_tensor_storage_bytes(const rush_tensor *t);
RUSH_API bool rush_tensor_is_contiguous(const rush_tensor *t);
RUSH_API bool rush_tensor_requires_grad(const rush_tensor *t);
RUSH_API void rush_tensor_set_requires_grad(rush_tensor *t, bool on);
/* Return the version counter; every write to the tensor's memory through this library increases
 * it. */
RUSH_API uint32_t rush_tensor_version(const rush_tensor *t);
/* Return the address of element 0, borrowed; NULL for a sparse tensor. */
RUSH_API const void *rush_tensor_data(const rush_tensor *t);
/* Like rush_tensor_data, for writing: data derived from the elements (packed weights) is dropped.
 * Returns NULL if the memory is read-only or the tensor sparse. */
RUSH_API void *rush_tensor_data_mut(rush_tensor *t);
/* Make the memory of t and of its views read-only: operators that would write to it are refused
 * (RUSH_ERAISED, a ValueError).  For memory that the caller mapped without write access, or that
 * must not change.  Do not call this while calls use t. */
RUSH_API void rush_tensor_set_read_only(rush_tensor *t);
RUSH_API bool rush_tensor_is_read_only(const rush_tensor *t);
/* Make a contiguous tensor with the same elements; this is t itself if t is contiguous.  *out is
 * new. */
RUSH_API rush_status rush_tensor_contiguous(rush_context *c, rush_tensor *t, rush_value *out,
                                            rush_error *err) RUSH_CHECKED;
/* Exchange tensors by DLPack.  to_dlpack: *out is a new DLManagedTensor* (`versioned`: a
 * DLManagedTensorVersioned*); the receiver calls its deleter.  from_dlpack: steals the managed
 * tensor, also on failure.  Only the versioned struct can mark memory as read-only: exporting a
 * read-only tensor in the plain one is refused (RUSH_ERAISED, a BufferError). */
RUSH_API rush_status rush_tensor_to_dlpack(rush_context *c, rush_tensor *t, bool versioned,
                                           void **out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_tensor_from_dlpack_steal(rush_context *c, void *managed, bool versioned,
                                                   rush_value *out, rush_error *err) RUSH_CHECKED;

/* -- Other values (all new) -------------------------------------------------------------------- */

/* Create a string; copies the bytes. */
RUSH_API rush_status rush_string_create(rush_context *c, const char *utf8, size_t n_bytes,
                                        rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_complex_create(rush_context *c, double re, double im, rush_value *out,
                                         rush_error *err) RUSH_CHECKED;
/* Create lists, tuples and dicts of plain values; items are borrowed and retained.  The element
 * type is the items' common type.  A method that declares another one (float for ints, Any) gets a
 * new list or dict of the items: the caller does not see what the method writes there.  A parameter
 * of type Any refuses a list or dict without items or without a common type, as in PyTorch. */
RUSH_API rush_status rush_list_create(rush_context *c, const rush_value *items, size_t n,
                                      rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_tuple_create(rush_context *c, const rush_value *items, size_t n,
                                       rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_dict_create(rush_context *c, const rush_value *keys,
                                      const rush_value *values, size_t n, rush_value *out,
                                      rush_error *err) RUSH_CHECKED;

RUSH_API void rush_value_complex(rush_value v, double *re, double *im);
/* Return a string's UTF-8 text, NUL-terminated, borrowed; *n_bytes (if not NULL) excludes the
 * NUL. */
RUSH_API const char *rush_value_string(rush_value v, size_t *n_bytes);
/* Number of items of a list, tuple or dict; 0 for anything else. */
RUSH_API size_t rush_value_len(rush_value v);
/* Return item i of a list or tuple, borrowed. */
RUSH_API rush_value rush_value_item(rush_value v, size_t i);
/* Return the qualified class name of an object, enum or NamedTuple, borrowed, or NULL. */
RUSH_API const char *rush_value_class(rush_value v);
/* Return the name of an enum member; *value is its value.  Both are borrowed. */
RUSH_API const char *rush_enum_name(rush_value v, rush_value *value);
/* Return the name of field i of a NamedTuple, or NULL. */
RUSH_API const char *rush_value_field(rush_value v, size_t i);
/* Get entry i of a dict, in insertion order, borrowed. */
RUSH_API void rush_value_entry(rush_value v, size_t i, rush_value *key, rush_value *value);
/* Return an attribute of an object, or a constant of its class, by name, new; UNSET tag if there is
 * neither. */
RUSH_API rush_value rush_object_attr(rush_value object, const char *name);
/* Names of an object's attributes, in order; valid while the object lives.  n_attrs is 0 for
 * anything else. */
RUSH_API size_t rush_object_n_attrs(rush_value object);
RUSH_API const char *rush_object_attr_name(rush_value object, size_t i);
/* Kind of attribute i of a module's object: a parameter, a buffer, a submodule (bits), or 0. */
enum { RUSH_SLOT_PARAMETER = 1, RUSH_SLOT_BUFFER = 2, RUSH_SLOT_MODULE = 4 };
RUSH_API unsigned rush_object_slot_kind(rush_value object, size_t i);
/* True if the value is an instance of a module's class. */
RUSH_API bool rush_object_is_module(rush_value object);
/* Set an attribute.  The value is converted to the attribute's type if TorchScript would convert
 * it, and refused otherwise. */
RUSH_API rush_status rush_object_set_attr(rush_context *c, rush_value object, const char *name,
                                          rush_value v, rush_error *err) RUSH_CHECKED;
/* Make the text that print() shows (repr false) or repr() (repr true); new, free it with
 * rush_free_text. */
RUSH_API rush_status rush_value_to_text(rush_context *c, rush_value v, bool repr, char **out,
                                        rush_error *err) RUSH_CHECKED;
RUSH_API void rush_free_text(rush_context *c, char *text);

/* -- Programs and modules ---------------------------------------------------------------------- */

typedef struct rush_load_options {
  size_t struct_bytes;
  bool check_full;  /* check the CRC of every record, not only of small ones */
  /* read the file into memory instead of mapping it: for files that may change while open */
  bool copy;
  bool meta; /* make tensors with sizes and no data (rush_tensor_is_meta): no data is read */
  const char *name; /* name for messages, if there is no path */
  /* which program of a torch.export package; NULL: "model", or the only one */
  const char *program;
} rush_load_options;
#define RUSH_LOAD_OPTIONS_INIT {sizeof(rush_load_options), false, false, false, NULL, NULL}

/* Load a TorchScript or torch.export archive from a path (mapped; its tensors are used in place).
 * *out is new. */
RUSH_API rush_status rush_module_load(rush_context *c, const char *path,
                                      const rush_load_options *options, rush_module **out,
                                      rush_error *err) RUSH_CHECKED;
/* Load from memory.  The data is copied unless `deleter` is given: then it must live until
 * deleter(user, data) is called. */
RUSH_API rush_status rush_module_load_bytes(rush_context *c, const void *data, size_t n_bytes,
                                            void (*deleter)(void *user, void *data), void *user,
                                            const rush_load_options *options, rush_module **out,
                                            rush_error *err) RUSH_CHECKED;
/* Load through callbacks: read(user, offset, buffer, n) fills n bytes and returns 0, or anything
 * else on failure. */
RUSH_API rush_status rush_module_load_reader(rush_context *c, uint64_t size_bytes,
                                             int (*read)(void *user, uint64_t offset, void *buffer,
                                                         size_t n),
                                             void *user, const rush_load_options *options,
                                             rush_module **out, rush_error *err) RUSH_CHECKED;
/* Where a text comes from, for messages.  Start from RUSH_TEXT_OPTIONS_INIT. */
typedef struct rush_text_options {
  size_t struct_bytes;
  const char *name;    /* name of the file; NULL: "<string>" */
  uint32_t first_line; /* number of the text's first line; 0: 1 */
} rush_text_options;
#define RUSH_TEXT_OPTIONS_INIT {sizeof(rush_text_options), NULL, 0}

/* Compile TorchScript from a text of n_bytes: functions, script classes, NamedTuples, enums,
 * interfaces, imports and constants (docs/language.md).  All of it is compiled now, and errors are
 * returned here, with their place and an excerpt.  The functions are the module's methods.  No
 * Python is executed.  options NULL: the defaults.  *out is new. */
RUSH_API rush_status rush_module_compile(rush_context *c, const char *text, size_t n_bytes,
                                         const rush_text_options *options, rush_module **out,
                                         rush_error *err) RUSH_CHECKED;
/* Add definitions to a module of rush_module_compile; they can use the earlier ones.  On failure
 * nothing is added.  Waits for running calls; pointers to the module's method list may become
 * invalid. */
RUSH_API rush_status rush_module_define(rush_module *m, const char *text, size_t n_bytes,
                                        const rush_text_options *options,
                                        rush_error *err) RUSH_CHECKED;
RUSH_API void rush_module_release(rush_module *m);

typedef struct rush_extra_file {
  const char *name;
  const void *data;
  size_t n_bytes;
} rush_extra_file;

typedef struct rush_save_options {
  size_t struct_bytes;
  const rush_extra_file *extra_files; /* stored as extra/NAME, as torch.jit.save's _extra_files */
  size_t n_extra_files;
  /* Receives the bytes, in order, instead of a file; returns false if they could not be written.
   * It must not save or change the module.  The path then only names the archive's root folder, or
   * is NULL. */
  bool (*write)(void *user, const void *data, size_t n_bytes);
  void *write_user;
  /* for a module made from text: save only this function, as forward; NULL: all of them */
  const char *function;
} rush_save_options;
#define RUSH_SAVE_OPTIONS_INIT {sizeof(rush_save_options), NULL, 0, NULL, NULL, NULL}

/* Save a TorchScript archive that PyTorch (torch.jit.load) and rush_module_load can open: the
 * module's present state, and its code printed from its graphs.  The same module gives the same
 * bytes.  The file is replaced atomically: it is written beside its final path and renamed.
 * Functions of a text become methods of a module; a text with one function saves it as forward.
 * An exported program becomes a .pt2 that torch.export.load opens: the program as it was read, the
 * present state, and the other records of its archive; `path` does not name its root folder.
 * Waits while calls that change the module's state run. */
RUSH_API rush_status rush_module_save(rush_module *m, const char *path,
                                      const rush_save_options *options,
                                      rush_error *err) RUSH_CHECKED;
/* Like rush_module_save, for a submodule or another object of a script class; the object must not
 * change meanwhile. */
RUSH_API rush_status rush_object_save(rush_context *c, rush_value object, const char *path,
                                      const rush_save_options *options,
                                      rush_error *err) RUSH_CHECKED;
/* Files that the author put into an archive, in its order.  Name and bytes are borrowed; NULL:
 * there is no such file. */
RUSH_API size_t rush_module_n_extra_files(const rush_module *m);
RUSH_API const char *rush_module_extra_file(const rush_module *m, size_t i, const void **data,
                                            size_t *n_bytes);
/* Make another instance with its own state: parameters are shared; buffers and attributes are
 * copied if `deep`. */
RUSH_API rush_status rush_module_copy(rush_module *m, rush_module **out,
                                      rush_error *err) RUSH_CHECKED;

/* Make a module from an object that is one (rush_object_is_module), for instance a submodule, to
 * call and print it like a whole module.  *out is new and uses the locks of `root`, the module that
 * the object belongs to (NULL: it gets its own). */
RUSH_API rush_status rush_module_around(rush_context *c, rush_value object, rush_module *root,
                                        rush_module **out, rush_error *err) RUSH_CHECKED;

/* Start from RUSH_FREEZE_OPTIONS_INIT. */
typedef struct rush_freeze_options {
  size_t struct_bytes;          /* sizeof(rush_freeze_options) */
  const char *const
    *preserved; /* names to keep: attributes and methods, "sub.weight" for a submodule's */
  size_t n_preserved;
  bool keep_numerics;           /* keep the bits of results: do not fold batch norms into weights */
  bool fold_only; /* only fold attributes; do not call rush_module_optimize_frozen afterwards */
} rush_freeze_options;
#define RUSH_FREEZE_OPTIONS_INIT {sizeof(rush_freeze_options), NULL, 0, false, false}

/* Make a module with the submodules of `m` inlined and its unwritten attributes turned into
 * constants, as torch.jit.freeze does.  *out is new, has forward and the preserved names, and
 * shares memory with `m`.  RUSH_ERAISED, a RuntimeError: `m` is in training mode, or lacks a
 * preserved name. RUSH_EUNSUPPORTED: `m` is an exported program. */
RUSH_API rush_status rush_module_freeze(rush_module *m, const rush_freeze_options *options,
                                        rush_module **out, rush_error *err) RUSH_CHECKED;
/* Optimise forward and the preserved methods of a frozen module: remove dropout, fold batch norms
 * and arithmetic with constants into the weights before them.  Do not call this while `m` is being
 * called. */
RUSH_API rush_status rush_module_optimize_frozen(rush_module *m, const rush_freeze_options *options,
                                                 rush_error *err) RUSH_CHECKED;

typedef enum rush_format { RUSH_FORMAT_TORCHSCRIPT, RUSH_FORMAT_EXPORT } rush_format;
RUSH_API rush_format rush_module_format(const rush_module *m);
/* True if a call may draw random numbers. */
RUSH_API bool rush_module_is_random(rush_module *m);
/* Return the instance as a value (an object); borrowed. */
RUSH_API rush_value rush_module_value(const rush_module *m);

/* Methods that can be called, and their schemas ("forward(Tensor x) -> Tensor"); valid while m
 * lives. */
RUSH_API size_t rush_module_n_methods(const rush_module *m);
RUSH_API const char *rush_module_method_name(const rush_module *m, size_t i);
/* *out is a new text (rush_free_text). */
RUSH_API rush_status rush_module_method_schema(rush_module *m, const char *method, char **out,
                                               rush_error *err) RUSH_CHECKED;

/* Inputs and outputs of a method, as data.  Immutable: any number of threads may read it. It refers
 * to nothing of the module except default values and constants.
 *
 *   rush_signature *s;
 *   rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
 *   rush_module_signature(m, NULL, &s, &err);
 *   for (i = 0; rush_signature_input(s, i, &item); i++)
 *     printf("%s: %s\n", item.name, item.type);
 *   rush_signature_release(s); */
typedef struct rush_signature rush_signature;

/* A size of a tensor, or the value of an int, in an exported program.  This struct does not
 * grow. */
typedef struct rush_signature_size {
  int64_t value;      /* value in the example that the program was made with; -1: unknown */
  int64_t min,
    /* allowed range; INT64_MIN and INT64_MAX: no known limit. Both equal `value` if the size is
     * fixed */
    max;
  /* "s77", or a formula of symbols, "2*s77 + 1": equal texts are equal sizes in every call. NULL:
   * the size is fixed */
  const char *symbol;
} rush_signature_size;

typedef struct rush_signature_item {
  size_t struct_bytes;
  const char *name;         /* of an input: "x", "d['a']"; of an output: "output", "output[1]" */
  const char *type;         /* as in annotations: "Tensor", "Optional[List[int]]" */
  /* input: number of the argument that it is, or is part of; output: number of the result's item,
   * or 0 */
  size_t argument;
  bool keyword_only;        /* input: its argument must be passed by name */
  bool has_default;         /* input: the argument may be left out; `value` is used then */
  /* input of an exported program: a call must pass `value`; None is not compared */
  bool is_constant;
  rush_value value;         /* borrowed; None unless it has a default or is a constant */
  bool is_described; /* true if the fields below are known: tensors and ints of exported programs */
  rush_dtype dtype;         /* of a tensor */
  int n_sizes;              /* dimensions of a tensor; 1 for an int: its value */
  const rush_signature_size *sizes;   /* n_sizes; borrowed from the signature */
} rush_signature_item;
#define RUSH_SIGNATURE_ITEM_INIT                                                                  \
  {                                                                                               \
    sizeof(rush_signature_item), NULL, NULL, 0, false, false, false, {RUSH_TAG_NONE, 0, {false}}, \
      false, RUSH_UINT8, 0, NULL                                                                  \
  }

/* Make the signature of a method (NULL: "forward").  A TorchScript method without an annotated
 * result is compiled. *out is new.  RUSH_EARGUMENT: there is no such method. */
RUSH_API rush_status rush_module_signature(rush_module *m, const char *method, rush_signature **out,
                                           rush_error *err) RUSH_CHECKED;
RUSH_API void rush_signature_release(rush_signature *s);
RUSH_API size_t rush_signature_n_inputs(const rush_signature *s);
RUSH_API size_t rush_signature_n_outputs(const rush_signature *s);
/* Fill the first out->struct_bytes of *out with input or output i; returns false if there is none.
 * The pointers in *out are valid as long as s. */
RUSH_API bool rush_signature_input(const rush_signature *s, size_t i, rush_signature_item *out);
RUSH_API bool rush_signature_output(const rush_signature *s, size_t i, rush_signature_item *out);

typedef struct rush_named_value {
  const char *name;
  rush_value value;
} rush_named_value;

/* Callbacks of a host that keeps the gradients of its own leaves while a program computes gradients
 * (backward() inside, .grad): for hosts whose tensors the program uses.  A callback sets *known to
 * false if it does not own the leaf, which then keeps its own gradient. */
typedef struct rush_gradient_host {
  size_t struct_bytes; /* sizeof(rush_gradient_host); both functions are needed */
  void *user;
  /* Get the leaf's gradient: new, or None. */
  rush_status (*get)(void *user, rush_value leaf, bool *known, rush_value *grad, rush_error *err);
  /* Add `grad` to the leaf's gradient; `grad` is itself recorded if create_graph. */
  rush_status (*add)(void *user, rush_value leaf, rush_value grad, bool create_graph,
                     bool retain_graph, bool *known, rush_error *err);
} rush_gradient_host;

typedef struct rush_call_options {
  size_t struct_bytes;
  bool no_grad;         /* run the call under torch.no_grad() */
  double limit_seconds; /* 0: the context's limit */
  struct rush_cancel *cancel; /* NULL: none */
  /* Record the call, so that rush_gradients can compute gradients of its results; with no_grad only
   * the parts where the program enables gradients are recorded. Without this flag, a program that
   * computes gradients itself (torch.autograd.grad, backward()) records what it needs and nothing
   * else: results do not require grad, parameters may be written in place, and groups that use
   * parameters are compiled. */
  bool record_gradients;
  /* NULL: none; used on the calling thread, until the call returns */
  const rush_gradient_host *gradient_host;
  /* Output buffers: outputs[i] is the tensor that receives output i of the method
   * (rush_signature_output), or None for an output that the library allocates.  After success the
   * result holds these very tensors, filled with the values. */
  const rush_value *outputs;
  size_t n_outputs;     /* at most the number of outputs; the library allocates the others */
  bool *outputs_copied; /* NULL, or room for n_outputs flags; set on success */
} rush_call_options;
#define RUSH_CALL_OPTIONS_INIT                                              \
  {                                                                         \
    sizeof(rush_call_options), false, 0.0, NULL, false, NULL, NULL, 0, NULL \
  }

/* Call a method (NULL: "forward") with positional arguments.  *result is new. */
RUSH_API rush_status rush_module_call(rush_module *m, const char *method, const rush_value *args,
                                      size_t n_args, rush_value *result,
                                      rush_error *err) RUSH_CHECKED;
/* Like rush_module_call, with named arguments and options. */
RUSH_API rush_status rush_module_call_named(rush_module *m, const char *method,
                                            const rush_value *args, size_t n_args,
                                            const rush_named_value *named, size_t n_named,
                                            const rush_call_options *options, rush_value *result,
                                            rush_error *err) RUSH_CHECKED;
/* Compile everything that the first call of a method (NULL: "forward") with these arguments would
 * compile, so that the call itself compiles nothing (the functions, groups and plans of
 * rush_compile_counters do not change then). */
RUSH_API rush_status rush_module_prepare(rush_module *m, const char *method, const rush_value *args,
                                         size_t n_args, const rush_named_value *named,
                                         size_t n_named, const rush_call_options *options,
                                         rush_error *err) RUSH_CHECKED;

/* A dimension of an input whose size may vary in an exported program, as torch.export.Dim. */
typedef struct rush_export_dim {
  /* "x", "xs[0]", "batch['mask']"; NULL: every tensor input that has the dimension, of the size
   * that the first of them has there */
  const char *input;
  int dim;          /* 0 is the first */
  const char *name; /* dimensions of one name are equal; NULL: Dim.AUTO, what the program needs */
  int64_t least, most; /* the sizes that are accepted; most INT64_MAX: no bound */
  /* The size is factor*n + offset, where n is the size called `name`, of which least and most
   * are the bounds; factor 0: it is n. */
  int64_t factor, offset;
  uint32_t symbol; /* s77 is 78; 0: numbered in order */
  bool is_dynamic; /* Dim.DYNAMIC: no name, but an error if the program works for one size only */
} rush_export_dim;

/* How the arguments and results of a program are nested, if the method takes and returns their
 * leaves: the program takes and returns what is described here.  All texts are borrowed. */
typedef struct rush_export_structure {
  size_t struct_bytes;
  /* trees as torch.utils._pytree writes them as JSON: of (args, kwargs), and of the result, whose
   * leaves the method returns as a tuple */
  const char *in_spec, *out_spec;
  const char *const *arg_names; /* of the parameters that are given */
  size_t n_arg_names;
  /* of each argument of the method: its placeholder ("x_0"), and what it is in conditions
   * ("L['x'][0]"), which rush_export_dim.input repeats */
  const char *const *names, *const *texts;
  size_t n_leaves;
  const char *const *temporary; /* buffers that are not part of the state dict */
  size_t n_temporary;
  const rush_value *sample_args; /* the example as the user gave it; NULL: it is not kept */
  size_t n_sample_args;
  const rush_named_value *sample_named;
  size_t n_sample_named;
  /* n_classes pairs of a submodule's path and the name of its class, for the program's metadata:
   * "layer.0", "torch.nn.modules.linear.Linear" */
  const char *const *classes;
  size_t n_classes;
} rush_export_structure;
#define RUSH_EXPORT_STRUCTURE_INIT                                                         \
  {                                                                                        \
    sizeof(rush_export_structure), NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, 0,   \
      NULL, 0, NULL, 0                                                                     \
  }

typedef struct rush_export_options {
  size_t struct_bytes;
  const rush_export_dim *dims;
  size_t n_dims;
  const rush_export_structure *structure; /* NULL: as the method's own arguments are */
  /* NULL, or: what depends on data is taken as it is in the example, which the program then checks,
   * and dimensions are what the program needs; *report receives a line for each such thing, new
   * (rush_free_text) */
  char **report;
} rush_export_options;
#define RUSH_EXPORT_OPTIONS_INIT {sizeof(rush_export_options), NULL, 0, NULL, NULL}

/* Make an exported program (torch.export) of a call of a method of a TorchScript module: of what
 * the method (NULL: "forward") does with arguments like these.  Nothing is computed.  Sizes are
 * fixed, except for those in `options` (or NULL).  *out is new, is called and saved (a .pt2) as one
 * that was loaded, and shares the module's tensors.  RUSH_EUNSUPPORTED: the program cannot be
 * exported; the message has the line.  RUSH_EARGUMENT, a ValueError: it works only for some sizes
 * of a dimension that was to vary. */
RUSH_API rush_status rush_module_export(rush_module *m, const char *method, const rush_value *args,
                                        size_t n_args, const rush_named_value *named,
                                        size_t n_named, const rush_export_options *options,
                                        rush_module **out, rush_error *err) RUSH_CHECKED;
/* Make an exported program of a text as RUSH_DUMP_EXPORT_IR prints it, with the weights, sample
 * inputs and other records of `weights`, an exported program whose parameters, buffers and
 * constants have the names that the text has.  `name` names the text in errors, which tell line and
 * column.  *out is new, is called and saved as one that was loaded, and shares the tensors.  Of the
 * text that was printed of `weights` it is the same program, and is saved as the same bytes. */
RUSH_API rush_status rush_export_parse(rush_module *weights, const char *text, size_t n_bytes,
                                       const char *name, rush_module **out,
                                       rush_error *err) RUSH_CHECKED;
/* Get the arguments that an exported program was made with: a tuple of a tuple (the positional
 * ones) and a dict (the named ones), new.  None if the archive has no sample inputs, as in
 * TorchScript. */
RUSH_API rush_status rush_module_samples(rush_module *m, rush_value *out,
                                         rush_error *err) RUSH_CHECKED;

/* -- Gradients --------------------------------------------------------------------------------- */

/* Calls with record_gradients record every operation on tensors that require grad (leaves marked
 * with rush_tensor_set_requires_grad, and parameters that do).  Results keep the records alive, and
 * these keep the values that gradients need.
 *
 *   rush_tensor_set_requires_grad(x.as.tensor, true);
 *   options.record_gradients = true;
 *   rush_module_call_named(m, "forward", &x, 1, NULL, 0, &options, &y, &err);
 *   rush_gradients(NULL, &y, NULL, 1, &x, 1, NULL, &dx, &err);
 *
 * Threads: one thread at a time may compute gradients from one result's records.  Calls may share
 * leaves. */
typedef struct rush_gradient_options {
  size_t struct_bytes;
  bool create_graph; /* record the gradients too, so that their gradients can be computed */
  bool retain_graph; /* keep the records for another use; create_graph implies it */
  /* results are None for inputs that the outputs do not depend on, instead of an error */
  bool allow_unused;
} rush_gradient_options;
#define RUSH_GRADIENT_OPTIONS_INIT {sizeof(rush_gradient_options), false, false, false}

/* Compute vector-Jacobian products: results[i] (new) is the gradient of inputs[i], given gradients
 * grad_outputs[] of the outputs (NULL, or None for an output with one element: ones).  All are
 * tensors.  options NULL: the defaults.  RUSH_ERAISED with PyTorch's message: an output does not
 * require grad, an input is not used, a saved value was overwritten, an operator has no derivative,
 * or the records were already used and freed. */
RUSH_API rush_status rush_gradients(rush_context *c, const rush_value *outputs,
                                    const rush_value *grad_outputs, size_t n_outputs,
                                    const rush_value *inputs, size_t n_inputs,
                                    const rush_gradient_options *options, rush_value *results,
                                    rush_error *err) RUSH_CHECKED;
/* Like rush_gradients, for all leaves that the outputs depend on: adds each gradient to the leaf's
 * (rush_tensor_grad). */
RUSH_API rush_status rush_backward(rush_context *c, const rush_value *outputs,
                                   const rush_value *grad_outputs, size_t n_outputs,
                                   const rush_gradient_options *options,
                                   rush_error *err) RUSH_CHECKED;
/* Get the gradient that rush_backward accumulated for a leaf, new, or None; and set it (None: clear
 * it). RUSH_EARGUMENT: dtype or sizes differ from the leaf's. */
RUSH_API rush_value rush_tensor_grad(const rush_tensor *t);
RUSH_API rush_status rush_tensor_set_grad(rush_tensor *t, rush_value grad,
                                          rush_error *err) RUSH_CHECKED;
/* True if the tensor is the result of a recorded operator. */
RUSH_API bool rush_tensor_is_recorded(const rush_tensor *t);
/* Return the tensor that t is a view of through recorded operators, borrowed, or NULL. */
RUSH_API const rush_tensor *rush_tensor_base(const rush_tensor *t);
/* Set whether t is treated as a leaf.  Leaves (all tensors of the caller that require grad) may not
 * be written to while gradients are recorded.  A tensor that represents something computed
 * elsewhere may be written to (on false); its value from before a write is then among
 * rush_gradient_leaves. */
RUSH_API void rush_tensor_set_leaf(rush_tensor *t, bool on);
/* List the leaves that gradients of these tensors would reach; *out is new. */
RUSH_API rush_status rush_gradient_leaves(rush_context *c, const rush_value *tensors, size_t n,
                                          rush_value *out, rush_error *err) RUSH_CHECKED;
/* Return the `user` of a tensor that rush_tensor_wrap made with this deleter; NULL for any other
 * tensor. Hosts use it to find their own object. */
RUSH_API void *rush_tensor_user(const rush_tensor *t, void (*deleter)(void *user, void *data));

/* Call a method of any object (a submodule, an instance of a script class) like a module's.  The
 * lock of the module that the object was read from is taken; other objects have no lock and are for
 * one thread at a time. */
RUSH_API bool rush_object_has_method(rush_value object, const char *method);
RUSH_API rush_status rush_object_call(rush_context *c, rush_value object, const char *method,
                                      const rush_value *args, size_t n_args,
                                      const rush_named_value *named, size_t n_named,
                                      const rush_call_options *options, rush_value *result,
                                      rush_error *err) RUSH_CHECKED;

/* Parameters and buffers by qualified name ("layer1.0.weight"), or by index; new. */
RUSH_API size_t rush_module_n_state(rush_module *m);
RUSH_API rush_status rush_module_state_at(rush_module *m, size_t i, char **name, bool *is_parameter,
                                          rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_module_get_state(rush_module *m, const char *name, rush_value *out,
                                           rush_error *err) RUSH_CHECKED;
/* Copy the tensor's elements into the named parameter or buffer; dtype and sizes must agree. */
RUSH_API rush_status rush_module_set_state(rush_module *m, const char *name, rush_value tensor,
                                           rush_error *err) RUSH_CHECKED;

/* Get a method's code as RUSH_DUMP_CODE shows it (*text is new: rush_free_text), and the tuple of
 * what it calls CONSTANTS.c0, .c1 ... (new).  Not available for exported programs. */
RUSH_API rush_status rush_module_code(rush_module *m, const char *method, char **text,
                                      rush_value *constants, rush_error *err) RUSH_CHECKED;

/* Kinds of text about a module; the texts are new (rush_free_text). */
typedef enum rush_dump {
  /* TorchScript printed from graphs: a method as PyTorch's `.code` shows it; without a name
   * everything that an archive would hold.  Exported programs: their graph's code as PyTorch prints
   * it */
  RUSH_DUMP_CODE,
  RUSH_DUMP_GRAPH, /* IR of one method; of all methods if there is neither a name nor a forward */
  RUSH_DUMP_BYTECODE,
  /* one "name count runs|schema only|unknown" per line; for functions, "does not compile" */
  RUSH_DUMP_OPS,
  RUSH_DUMP_SUMMARY,
  RUSH_DUMP_SCHEMA,    /* the declaration of a method, or of all */
  RUSH_DUMP_DOT,       /* a method's graph in Graphviz's language */
  RUSH_DUMP_DIGEST,    /* hashes of methods and state: equal programs have equal hashes */
  RUSH_DUMP_OPTIMIZED, /* the graph that runs, after all passes */
  RUSH_DUMP_GROUPS,    /* the same, with the reason why each other node is in no group */
  RUSH_DUMP_ASM, /* what the groups were compiled to, for the arguments they are likely to get */
  /* one JSON object: functions with their graphs, operators, sources; of one method or of all */
  RUSH_DUMP_JSON,
  /* what the verifiers find wrong in everything that methods reach, and in an exported program
   * (rush_export_verify), one line each; "" if nothing */
  RUSH_DUMP_FAULTS,
  /* inputs and outputs of a method, or of all, one line each, as in rush_module_signature */
  RUSH_DUMP_SIGNATURE,
  /* {"arg_names": [...], "in": SPEC, "out": SPEC}: the tree specs of an exported program, as in the
   * file, if they name classes (dataclasses, OrderedDict ...); "" if all are tuples, lists and
   * dicts */
  RUSH_DUMP_TREES,
  /* {"functions": [{"name", "registers", "constants", "arguments", "instructions": [{"pc", "op",
   * "operator"|"function"|"name", "inputs", "outputs", "a", "b", "c", "to", "at": {"file", "line",
   * "column"}}]}]} */
  RUSH_DUMP_BYTECODE_JSON,
  /* {"functions": [{"name", "groups": [{"operator", "pc", "at", "lines": [{"address", "bytes",
   * "text"} | {"label"} | {"text"}]}]}]} */
  RUSH_DUMP_ASM_JSON,
  /* the plans that calls have made so far: how often each ran, what it assumes of arguments and
   * attributes, and its graph (docs/executors.md) */
  RUSH_DUMP_PLANS,
  /* the graph of a method after each phase of PyTorch's executors, with the tables of the phases */
  RUSH_DUMP_PHASES,
  /* an exported program as PyTorch's str(ExportedProgram): code with shapes and the author's lines,
   * signature, ranges */
  RUSH_DUMP_FX,
  RUSH_DUMP_FX_GRAPH, /* its graph, as str(program.graph) */
  RUSH_DUMP_FX_CODE,  /* its code, as program.graph_module.code */
  /* all of it but weights, as a text that rush_export_parse reads: our own, without a loss */
  RUSH_DUMP_EXPORT_IR
} rush_dump;
RUSH_API rush_status rush_module_dump(rush_module *m, rush_dump what, const char *method,
                                      char **out, rush_error *err) RUSH_CHECKED;

/* Check an exported program (.pt2) against the rules of torch.export, without making it ready to
 * run.  *faults (new: rush_free_text) has a line for each rule that it breaks, which begins with
 * the rule's name ("args.type: ..."; docs/export.md lists them), and is "" if it breaks none; NULL
 * if the file holds no exported program.  dialect: NULL, for those that the program names, or
 * "TRAINING", "ATEN", "CORE_ATEN", "EDGE".  A file that cannot be read is an error. */
RUSH_API rush_status rush_export_verify(rush_context *c, const char *path,
                                        const rush_load_options *options, const char *dialect,
                                        char **faults, rush_error *err) RUSH_CHECKED;

/* A cancellation flag; another thread can set it. */
typedef struct rush_cancel rush_cancel;
RUSH_API rush_cancel *rush_cancel_create(rush_context *c); /* new; NULL if memory ran out */
RUSH_API void rush_cancel_request(rush_cancel *k);         /* any thread may call it */
RUSH_API void rush_cancel_release(rush_cancel *k);

/* -- Profiles ---------------------------------------------------------------------------------- */

/* Profiling: a context records every operator and every method or function of a program that its
 * calls run, with times, inputs and source lines.  It costs nothing while off.  A context has one
 * profile at a time; it holds what ran between start and stop, and can be read until the next start
 * or the end of the context. */

typedef enum rush_profile_kind {
  RUSH_PROFILE_FUNCTION, /* a method or function of a program */
  RUSH_PROFILE_OPERATOR
} rush_profile_kind;

/* One operator or function that ran.  Events of one thread nest: an event's children follow it, one
 * level deeper.  Strings are borrowed until the next start. */
typedef struct rush_profile_event {
  const char *name;      /* "aten::conv2d", "__torch__.M.forward" */
  rush_profile_kind kind;
  uint32_t thread;       /* 0, 1, ... in order of first appearance */
  uint32_t depth;        /* 0: called from outside */
  uint64_t start_ns;     /* monotonic clock */
  uint64_t end_ns;       /* 0: it had not ended */
  int64_t bytes;         /* change of the context's live bytes meanwhile */
  const char *inputs;    /* tensors of an operator, "float32[1, 3, 8, 8], float32[4]"; else "" */
  /* file of the line that called it, as its author wrote it if the archive records that; or NULL */
  const char *file;
  const char *code;      /* text of that line, or NULL */
  const char *caller;    /* the function whose graph contains the call, or NULL */
  uint32_t line;         /* from 1; 0: unknown */
  uint32_t node;         /* the node of that graph: `id` in RUSH_DUMP_JSON */
} rush_profile_event;

/* Record calls that start from now on, at most max_events (0: a million) events; an earlier profile
 * is discarded. */
RUSH_API rush_status rush_profile_start(rush_context *c, size_t max_events,
                                        rush_error *err) RUSH_CHECKED;
/* Stop recording calls that start from now on. */
RUSH_API void rush_profile_stop(rush_context *c);
/* Number of recorded events, ordered by start; *n_dropped (may be NULL) is the number that did not
 * fit. */
RUSH_API size_t rush_profile_n_events(rush_context *c, uint64_t *n_dropped);
/* Copy event i into *out; returns false if there is none. */
RUSH_API bool rush_profile_event_at(rush_context *c, size_t i, rush_profile_event *out);

/* One operator call of a program and its results.  Everything is borrowed until the callback
 * returns. */
typedef struct rush_watched {
  size_t struct_bytes;
  const char *name;       /* with the overload: "aten::add.Tensor" */
  /* the function whose graph contains the call, or NULL; file, code, line and node as in
   * rush_profile_event */
  const char *caller;
  const char *file, *code;
  uint32_t line, node;
  const rush_value *results;
  size_t n_results;
} rush_watched;
typedef void rush_watch_fn(void *user, const rush_watched *what);

/* Call fn(user, ...) after every operator that a program calls from this thread, in the order in
 * which they end, for calls that start from now on.  Operators called by other operators are not
 * reported separately.  Results' memory is reused once nothing needs it: copy what you keep
 * (operators that fn itself calls are not watched).  The operators of a compiled group are only
 * reported one by one in contexts with RUSH_EXECUTOR_SIMPLE.  Costs nothing while no watch is
 * active. */
RUSH_API rush_status rush_watch_start(rush_context *c, rush_watch_fn *fn, void *user,
                                      rush_error *err) RUSH_CHECKED;
/* End the watch that was started on this thread with this fn and user. */
RUSH_API void rush_watch_stop(rush_context *c, rush_watch_fn *fn, void *user);

/* -- Plug-ins ---------------------------------------------------------------------------------- */

/* Open a shared object and let it register its operators and passes in the context (backend.h).
 * Its code is executed: load only what you trust.  It stays loaded.  RUSH_EIO: it cannot be opened.
 * RUSH_EARGUMENT: it is no plug-in, was built for another version, or one of its registrations is
 * refused; earlier registrations of a failing plug-in are kept. */
RUSH_API rush_status rush_plugin_load(rush_context *c, const char *path,
                                      rush_error *err) RUSH_CHECKED;

/* -- Single operators and data files ----------------------------------------------------------- */

/* Call an operator: "aten::add.Tensor", or "aten::add" for the first overload that accepts the
 * arguments.  At most max_results results are written; they are new. */
RUSH_API rush_status rush_op_call(rush_context *c, const char *name, const rush_value *args,
                                  size_t n_args, const rush_named_value *named, size_t n_named,
                                  rush_value *results, size_t max_results, size_t *n_results,
                                  rush_error *err) RUSH_CHECKED;
/* Like rush_op_call, with options (NULL: the defaults): record_gradients records the operator. */
RUSH_API rush_status rush_op_call_with(rush_context *c, const char *name, const rush_value *args,
                                       size_t n_args, const rush_named_value *named, size_t n_named,
                                       const rush_call_options *options, rush_value *results,
                                       size_t max_results, size_t *n_results,
                                       rush_error *err) RUSH_CHECKED;
/* Compute what the results of such a call would look like, without running it.  *result, new, is a
 * tuple
 *
 *   (operator with overload, name of its shape rule, results, guards, symbols)
 *
 * of two strings and three lists.  A result is a tuple (number of the result in the schema, sizes,
 * strides, offset, dtype, number of the argument whose memory it shares or -1, whether it is that
 * argument itself).  `symbolic`: sizes of tensor arguments larger than 1 are treated as unknown,
 * equal ones as equal; then sizes, strides and offset follow again as formulas (strings) after the
 * numbers, guards are the conditions under which the formulas hold, and symbols are tuples (name,
 * its value in this call or None, least, largest or None). -1 marks sizes that depend on data.
 * RUSH_EUNSUPPORTED: the operator has no shape rule. */
RUSH_API rush_status rush_op_shape(rush_context *c, const char *name, const rush_value *args,
                                   size_t n_args, const rush_named_value *named, size_t n_named,
                                   bool symbolic, rush_value *result, rush_error *err) RUSH_CHECKED;
/* True if there is an operator of this name; without an overload in the name, any overload
 * counts. */
RUSH_API bool rush_op_exists(rush_context *c, const char *name);
/* Make a text with the schemas of all operators that can run (name NULL), or of one operator's
 * overloads that can, one per line.  If they are known, a tab and the dtype classes that it
 * computes in follow: "bool int float complex".  Registered operators (backend.h) are not included.
 * Free *text with rush_free_text. */
RUSH_API rush_status rush_op_schemas(rush_context *c, const char *name, char **text,
                                     rush_error *err) RUSH_CHECKED;
/* An operator looked up once, for repeated calls with complete arguments. */
typedef struct rush_operator rush_operator;
/* Find an operator; borrowed from the context.  Returns NULL if it is unknown. */
RUSH_API const rush_operator *rush_op_find(rush_context *c, const char *name);
RUSH_API rush_status rush_op_run(const rush_operator *op, const rush_value *args, size_t n_args,
                                 rush_value *results, size_t n_results,
                                 rush_error *err) RUSH_CHECKED;

/* Describe the gradients of the operator "aten::mul.Tensor" (an in-place or out= variant has those
 * of its base): the number of formulas and, for formula i, the arguments it is for and the values
 * it needs, as names separated by spaces. */
RUSH_API rush_status rush_op_n_gradients(rush_context *c, const char *name, size_t *n,
                                         rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_op_gradient(rush_context *c, const char *name, size_t i,
                                      const char **inputs, const char **takes,
                                      rush_error *err) RUSH_CHECKED;
/* Run formula i on values[n_values], in the order of `takes`: "grad" ("grad0"...) is the gradient
 * of the (first...) result, "result" that result, "needs" a list of bool, "self_sizes" the sizes of
 * an argument, and every other name an argument.  results[n_inputs] are new, in the order of
 * `inputs`, and have the sizes and dtypes of inputs[], which are the arguments (or None). */
RUSH_API rush_status rush_op_gradient_run(rush_context *c, const char *name, size_t i,
                                          const rush_value *values, size_t n_values,
                                          const rush_value *inputs, size_t n_inputs,
                                          rush_value *results, rush_error *err) RUSH_CHECKED;

/* Load a value from a file: a torch.save archive of plain data, .npy, .npz (a dict) or .safetensors
 * (a dict).  New. */
RUSH_API rush_status rush_value_load(rush_context *c, const char *path, rush_value *out,
                                     rush_error *err) RUSH_CHECKED;
/* Like rush_value_load, with options (NULL: the defaults).  `meta` is only for modules:
 * RUSH_EARGUMENT. */
RUSH_API rush_status rush_value_load_with(rush_context *c, const char *path,
                                          const rush_load_options *options, rush_value *out,
                                          rush_error *err) RUSH_CHECKED;
/* Like rush_value_load_with, from memory, which is copied. */
RUSH_API rush_status rush_value_load_bytes(rush_context *c, const void *data, size_t n_bytes,
                                           const rush_load_options *options, rush_value *out,
                                           rush_error *err) RUSH_CHECKED;
/* Save a value to a file, in the format given by the path's suffix: .npy (one tensor), .npz and
 * .safetensors (tensors: a dict by its keys, a list or tuple by numbers), .pt or .pth (torch.save:
 * tensors, numbers, strings, lists, tuples, dicts).  The file is replaced atomically.
 * RUSH_EARGUMENT: another suffix, or a value that the format cannot hold. */
RUSH_API rush_status rush_value_save(rush_context *c, const char *path, rush_value v,
                                     rush_error *err) RUSH_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
