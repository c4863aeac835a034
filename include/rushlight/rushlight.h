/* rushlight.h -- open PyTorch programs and run them, without PyTorch.
 *
 * The main job in five calls (errors left out):
 *
 *   rush_module *m;            rush_module_load(NULL, "model.pt", NULL, &m, &err);
 *   rush_value x, y;           rush_tensor_wrap(NULL, RUSH_FLOAT32, 2, sizes, NULL, p, NULL, NULL,
 *   &x, &err);
 *                              rush_module_call(m, "forward", &x, 1, &y, &err);
 *                              rush_tensor_data(y.as.tensor) ...
 *                              rush_value_release(y); rush_value_release(x);
 *                              rush_module_release(m);
 *
 * Ownership.  Three words, used in no other sense.  *new*: the caller releases the result.
 * *borrowed*: valid while what it came from lives.  *steals*: the callee owns the argument even
 * when it fails.  An argument of which nothing is said is borrowed for the call.  Out-parameters
 * are written only on success, and may be NULL where the result is not wanted (what a call returns
 * is released then), except where the function only makes what it gives (create, load, wrap).
 * Releasing NULL (or a value without a heap part) does nothing.
 *
 * Errors.  Functions that can fail return a status and fill a `rush_error` that the caller owns
 * (NULL: not interested).  Nothing here prints, aborts, exits, or keeps a "last error".
 *
 * Contexts.  A context argument of NULL means the default context, made at first use.  A context
 * outlives every value made in it; modules hold on to theirs.
 *
 * Threads.  Contexts, programs, modules and generators are locked inside: any number of threads may
 * use them. Calls that change a module's state run alone, others together; reading and writing the
 * state from outside (rush_module_get_state, set_state, state_at, attributes of the module's object
 * and of those below it, saving, copying, freezing, dumps) takes the same lock, which modules
 * around parts of one module share.  A list, dict or tuple that is read from the state, or that a
 * method returns while the module still holds it, is a copy made under the lock (as in PyTorch's
 * Python interface): later calls do not change it.  Tensors and objects are the module's own.
 * Objects found inside of a list that a method made, and objects that two modules with different
 * locks hold, are not protected.  A callback may call into the module that it was called from.
 * Waiting for a lock ends at the call's deadline or when it is cancelled.  A single value, a
 * tensor's elements included, is for one thread at a time unless nobody writes to it.
 *
 * Forks.  A child of fork() uses the library as the parent could: contexts, modules and tensors
 * that it had, with threads of its own, started when they are needed.  What another thread was
 * changing or compiling at the moment of the fork stays half done: the child's calls of such a
 * module fail (RUSH_ERAISED: load it again), its other ones work.
 *
 * Versions.  Structs that grow begin with `struct_bytes`, the size that the caller compiled: start
 * from their _INIT or set it to sizeof, with the rest zero.  Of a smaller one the missing fields
 * count as zero (a callback: as NULL, which is refused by name where it is needed); a larger one is
 * taken while its rest is zero, else refused (RUSH_EARGUMENT).  Of structs that the library fills
 * the smaller part is filled.  New fields come at the end.
 *
 * Units: sizes and strides in elements, `_bytes` in bytes, times in seconds. */
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
  const char *message;   /* what was expected, what came, where; NULL when status is RUSH_OK */
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

/* "float32", or NULL for a number that is no dtype.  Static. */
RUSH_API const char *rush_dtype_name(rush_dtype dtype);
/* Bytes of one element, or 0 for a number that is no dtype. */
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
  RUSH_TAG_OBJECT,    /* as.object: instance of a script class, or a module */
  RUSH_TAG_ENUM,      /* a member of a script enum */
  RUSH_TAG_DEVICE,    /* as.i: type in the high 32 bits, index (or -1) in the low */
  RUSH_TAG_GENERATOR, /* a random generator */
  RUSH_TAG_FUTURE,    /* what fork returns */
  RUSH_TAG_CUSTOM,    /* instance of a registered custom class */
  RUSH_TAG_STORAGE,   /* an untyped storage */
  RUSH_TAG_FUNCTION,  /* a function of a program */
  RUSH_TAG_UNSET      /* internal: an attribute or variable that was never set */
} rush_tag;

/* PyTorch's IValue.  16 bytes, copied freely; who owns the heap part is said by the functions. */
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

/* Add a reference to the heap part, if any; returns v. */
RUSH_API rush_value rush_value_retain(rush_value v);
/* Drop a reference to the heap part, if any. */
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

/* Highest instruction set used: everything a CPU has (0), or less, for comparison. */
typedef enum rush_cpu {
  RUSH_CPU_NATIVE,
  RUSH_CPU_PORTABLE,
  RUSH_CPU_AVX2,
  RUSH_CPU_AVX512
} rush_cpu;

/* Bytes of stack that a call of a program without recursion takes at most, in release builds:
 * threads of 64 KB are large enough, the system's part of a thread and a few frames of the caller's
 * included. */
#define RUSH_STACK_CALL 32768
#define RUSH_STACK_FIRST_CALL 57344 /* the first call of a method, which compiles it */

/* How programs run.  Results are the same. */
typedef enum rush_executor {
  RUSH_EXECUTOR_DEFAULT, /* the best there is: specialising */
  RUSH_EXECUTOR_SIMPLE,  /* graphs as they are, operator by operator */
  /* passes group operators; groups are compiled for the kinds of their arguments */
  RUSH_EXECUTOR_SPECIALISING
} rush_executor;

/* Start from RUSH_CONTEXT_OPTIONS_INIT; zero means the default everywhere. */
typedef struct rush_context_options {
  size_t struct_bytes;   /* sizeof(rush_context_options): lets the struct grow */
  void *(*alloc)(void *user, size_t n_bytes); /* 16-byte aligned; NULL: malloc */
  void (*free)(void *user, void *p, size_t n_bytes);
  void *alloc_user;
  size_t limit_bytes;    /* of everything allocated in the context */
  double limit_seconds;  /* of each outer call */
  uint32_t limit_depth;  /* recursion and nesting */
  int n_threads;
  void (*print)(void *user, const char *text,
                size_t n_bytes); /* print() of programs; NULL: stdout */
  void (*warn)(void *user, const char *text);                  /* warnings; NULL: stderr */
  void *callback_user;
  rush_cpu cpu;
  bool no_reuse;         /* never let an operator write into a dying argument's buffer */
  rush_executor executor;
  /* Bytes of stack that an outer call may use, counted from where it enters the library; 0: 262144
   * (256 KB).  A program without recursion needs RUSH_STACK_CALL of them, and RUSH_STACK_FIRST_CALL
   * for the call that compiles it.  Recursion that needs more (deep programs, deep values) ends in
   * RUSH_ELIMIT, a RecursionError, 16 KB before.  On a thread's own stack the limit is also what
   * the thread has left, so a large number is safe there.  On another stack (a fiber's, a
   * coroutine's) its size cannot be known: give what a call finds left of it, where that is less
   * than 256 KB. */
  size_t stack_bytes;
  /* freed tensor data goes back to the allocator at once: for one that caches itself, and for
   * finding leaks */
  bool no_cache;
} rush_context_options;
#define RUSH_CONTEXT_OPTIONS_INIT                                                   \
  {                                                                                 \
    sizeof(rush_context_options), NULL, NULL, NULL, 0, 0.0, 0, 0, NULL, NULL, NULL, \
      RUSH_CPU_NATIVE, false, RUSH_EXECUTOR_DEFAULT, 0, false                       \
  }

/* New.  `options` NULL: all defaults. */
RUSH_API rush_status rush_context_create(const rush_context_options *options, rush_context **out,
                                         rush_error *err) RUSH_CHECKED;
RUSH_API void rush_context_release(rush_context *c);
/* Release the default context: its memory and threads go, once the modules that hold on to it have.
 *  The next use of NULL makes a new one.  Not while it is used elsewhere; values and texts made in
 *  it are released before. */
RUSH_API void rush_context_release_default(void);
/* Threads that operators may use, the caller's included; at least 1. */
RUSH_API void rush_context_set_threads(rush_context *c, int n_threads);
RUSH_API int rush_context_get_threads(rush_context *c);
/* Another instruction set than the options named, for comparison: results have the same bits with
 * each.  Not while calls run; machine code that a program has already stays.  A set that the
 * machine lacks is lowered to what it has; get says which is used. */
RUSH_API rush_status rush_context_set_cpu(rush_context *c, rush_cpu cpu,
                                          rush_error *err) RUSH_CHECKED;
RUSH_API rush_cpu rush_context_get_cpu(rush_context *c);
/* Run kernels on the host's threads instead of ours, which end.  run(user, fn, arg, n) calls
 * fn(arg, i) for every i in [0, n), n at most n_threads, on any threads and in any order, also one
 * after the other, and returns when all are done.  One run at a time: calls that come meanwhile
 * from other threads work alone.  fn returns always (no jump, no exception) and may take as long as
 * a kernel does; run must not call this function or rush_context_set_threads, and must not throw.
 * NULL run: our own pool again.  Bits of results do not depend on it.  Before the context's first
 * call no thread of ours was started. */
RUSH_API void rush_context_set_pool(rush_context *c, int n_threads,
                                    void (*run)(void *user, void (*fn)(void *arg, int i), void *arg,
                                                int n),
                                    void *user);
/* Run passes (docs/passes.md: "inline,dce") over every function that is compiled from now on,
 * before it is made ready to run; in the order named, and after those that were added before.  They
 * keep what programs mean: for looking at them, and for tests.  RUSH_EARGUMENT: there is no pass of
 * a name.  Not while calls run. */
RUSH_API rush_status rush_context_add_passes(rush_context *c, const char *names,
                                             rush_error *err) RUSH_CHECKED;
/* torch.manual_seed: the default generator of the context. */
RUSH_API rush_status rush_manual_seed(rush_context *c, uint64_t seed, rush_error *err) RUSH_CHECKED;
/* State of the context's default generator, in the RUSH_GENERATOR_STATE_BYTES bytes of
 * torch.get_rng_state().  RUSH_EARGUMENT: other bytes. */
#define RUSH_GENERATOR_STATE_BYTES 5056
RUSH_API rush_status rush_generator_get_state(rush_context *c, void *state,
                                              rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_generator_set_state(rush_context *c, const void *state, size_t n_bytes,
                                              rush_error *err) RUSH_CHECKED;
/* A generator of its own, in such a state; new.  And the state that one is in: false when the value
 * is none. */
RUSH_API rush_status rush_generator_create(rush_context *c, const void *state, size_t n_bytes,
                                           rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API bool rush_generator_value_state(rush_value generator, void *state);
/* What compilation did in a context (calls of threads that run at once may count as one).  Set
 * struct_bytes before the call; it says afterwards how much was known. */
typedef struct rush_compile_counters {
  size_t struct_bytes;
  uint64_t groups;      /* groups of operators that compiled functions have */
  uint64_t plans;       /* codes made for them: one for each kinds of arguments */
  uint64_t group_calls; /* calls of groups that ran as one */
  /* calls of groups, of any backend, that ran operator by operator, for whatever reason */
  uint64_t interpreted;
  uint64_t functions;   /* methods, functions and bodies of operators that were compiled to run */
} rush_compile_counters;
RUSH_API void rush_compile_stats(rush_context *c, rush_compile_counters *out);

/* Bytes in use now and at most since the last reset. */
RUSH_API void rush_memory_stats(rush_context *c, size_t *live_bytes, size_t *peak_bytes);
/* All that is known of a context's memory.  Mapped files are not in it.  Start from
 * RUSH_MEMORY_INIT. */
typedef struct rush_memory {
  size_t struct_bytes;
  size_t live_bytes;     /* in use */
  size_t peak_bytes;     /* the most that was in use since the last reset */
  /* free blocks kept for the next tensors: taken from the system, not in use */
  size_t cached_bytes;
  /* of live_bytes: weights that are kept in the order in which kernels read them */
  size_t packed_bytes;
  size_t limit_bytes;    /* of live_bytes and cached_bytes together; 0: none */
  uint64_t n_allocs;     /* allocations so far */
  uint64_t n_data;       /* of those, tensor data and scratch memory of kernels ... */
  uint64_t n_cache_hits; /* ... and how many of these were found in the cache */
} rush_memory;
#define RUSH_MEMORY_INIT {sizeof(rush_memory), 0, 0, 0, 0, 0, 0, 0, 0}
/* Fills the first out->struct_bytes of *out.  Any thread; numbers of other threads may be a moment
 * old. */
RUSH_API void rush_memory_get(rush_context *c, rush_memory *out);
/* The peak becomes what is in use now. */
RUSH_API void rush_memory_reset_peak(rush_context *c);
/* Give the cached blocks back to the system. */
RUSH_API void rush_memory_trim(rush_context *c);

/* -- Tensors ----------------------------------------------------------------------------------- */

/* A contiguous tensor, uninitialised.  *out is new. */
RUSH_API rush_status rush_tensor_create(rush_context *c, rush_dtype dtype, int n_dims,
                                        const int64_t *sizes, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* A tensor over the caller's memory, which must live until deleter(user, data) is called (NULL:
 * until the last tensor on it is released).  strides NULL: contiguous.  Not copied; operators that
 * write in place write there. */
RUSH_API rush_status rush_tensor_wrap(rush_context *c, rush_dtype dtype, int n_dims,
                                      const int64_t *sizes, const int64_t *strides, void *data,
                                      void (*deleter)(void *user, void *data), void *user,
                                      rush_value *out, rush_error *err) RUSH_CHECKED;
/* The same over a part of a larger buffer: element 0 is `offset` elements behind `data`, of which
 * all n_bytes may be reached (by as_strided, by set_).  Refused: a tensor that reaches beyond them.
 * */
RUSH_API rush_status rush_tensor_wrap_part(rush_context *c, rush_dtype dtype, int n_dims,
                                           const int64_t *sizes, const int64_t *strides,
                                           int64_t offset, void *data, size_t n_bytes,
                                           void (*deleter)(void *user, void *data), void *user,
                                           rush_value *out, rush_error *err) RUSH_CHECKED;
/* A tensor of torch's device meta: sizes and strides (elements, not negative), and no data, which
 * reads as zeros.  Attributes of modules may be such; programs that ask for them fail
 * (RUSH_ERAISED).  *out is new. */
RUSH_API rush_status rush_tensor_new_meta(rush_context *c, rush_dtype dtype, int n_dims,
                                          const int64_t *sizes, const int64_t *strides,
                                          rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API bool rush_tensor_is_meta(const rush_tensor *t);
/* 0: strided.  1: sparse coordinates (torch.sparse_coo), 2: sparse compressed rows
 * (torch.sparse_csr): such a tensor has sizes and no memory of its own; its parts are what the
 * operators aten::_indices, aten::_values, aten::crow_indices, ... give. */
RUSH_API int rush_tensor_layout(const rush_tensor *t);
RUSH_API rush_dtype rush_tensor_dtype(const rush_tensor *t);
RUSH_API int rush_tensor_n_dims(const rush_tensor *t);
RUSH_API const int64_t *rush_tensor_sizes(const rush_tensor *t);   /* n_dims of them, borrowed */
RUSH_API const int64_t *rush_tensor_strides(const rush_tensor *t); /* elements, borrowed */
RUSH_API int64_t rush_tensor_n_elems(const rush_tensor *t);
RUSH_API size_t
rush_tensor_storage_bytes(const rush_tensor *t); /* of the memory that views of the tensor share */
RUSH_API bool rush_tensor_is_contiguous(const rush_tensor *t);
RUSH_API bool rush_tensor_requires_grad(const rush_tensor *t);
RUSH_API void rush_tensor_set_requires_grad(rush_tensor *t, bool on);
/* Moves with every write to the tensor's memory through this library. */
RUSH_API uint32_t rush_tensor_version(const rush_tensor *t);
/* Element 0.  Borrowed.  NULL of a sparse tensor. */
RUSH_API const void *rush_tensor_data(const rush_tensor *t);
/* The same for writing: derived data (packed weights) is dropped.  NULL: the memory is read-only,
 * or the tensor sparse. */
RUSH_API void *rush_tensor_data_mut(rush_tensor *t);
/* From now on nothing may write to the memory of t and of its views: operators that would are
 * refused (RUSH_ERAISED, a ValueError).  For memory of the caller's that is mapped without write
 * access, or must stay as it is.  Not while calls use it. */
RUSH_API void rush_tensor_set_read_only(rush_tensor *t);
RUSH_API bool rush_tensor_is_read_only(const rush_tensor *t);
/* A contiguous tensor with the same elements: t itself when it is contiguous.  *out is new. */
RUSH_API rush_status rush_tensor_contiguous(rush_context *c, rush_tensor *t, rush_value *out,
                                            rush_error *err) RUSH_CHECKED;
/* DLPack.  Out: a DLManagedTensor* (versioned: DLManagedTensorVersioned*), new; the receiver calls
 * its deleter.  In: steals the managed tensor, also on failure.  Only the versioned struct can say
 * that memory is read-only: in the plain one such a tensor is refused (RUSH_ERAISED, a
 * BufferError). */
RUSH_API rush_status rush_tensor_to_dlpack(rush_context *c, rush_tensor *t, bool versioned,
                                           void **out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_tensor_from_dlpack_steal(rush_context *c, void *managed, bool versioned,
                                                   rush_value *out, rush_error *err) RUSH_CHECKED;

/* -- Other values (all new) -------------------------------------------------------------------- */

/* Copies the bytes. */
RUSH_API rush_status rush_string_create(rush_context *c, const char *utf8, size_t n_bytes,
                                        rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_complex_create(rush_context *c, double re, double im, rush_value *out,
                                         rush_error *err) RUSH_CHECKED;
/* Lists, tuples and dicts of plain values; items are borrowed and retained.  The element type is
 * the items' common type.  A method that declares another one (float for ints, Any) gets a new list
 * or dict of the items: the caller does not see what it writes there.  A place of type Any refuses
 * a list or dict without items or without a common type, as PyTorch does. */
RUSH_API rush_status rush_list_create(rush_context *c, const rush_value *items, size_t n,
                                      rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_tuple_create(rush_context *c, const rush_value *items, size_t n,
                                       rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_dict_create(rush_context *c, const rush_value *keys,
                                      const rush_value *values, size_t n, rush_value *out,
                                      rush_error *err) RUSH_CHECKED;

RUSH_API void rush_value_complex(rush_value v, double *re, double *im);
/* UTF-8, NUL-terminated; *n_bytes (if not NULL) without the NUL.  Borrowed. */
RUSH_API const char *rush_value_string(rush_value v, size_t *n_bytes);
/* Items of a list, tuple or dict; 0 for anything else. */
RUSH_API size_t rush_value_len(rush_value v);
/* Item i of a list or tuple, borrowed. */
RUSH_API rush_value rush_value_item(rush_value v, size_t i);
/* Qualified class name of an object, enum or NamedTuple, or NULL.  Borrowed. */
RUSH_API const char *rush_value_class(rush_value v);
/* Name and value of an enum member, borrowed. */
RUSH_API const char *rush_enum_name(rush_value v, rush_value *value);
/* Name of field i of a NamedTuple, or NULL. */
RUSH_API const char *rush_value_field(rush_value v, size_t i);
/* Entry i of a dict in insertion order, borrowed. */
RUSH_API void rush_value_entry(rush_value v, size_t i, rush_value *key, rush_value *value);
/* Attribute of an object by name, new, or a constant of its class; UNSET tag when there is neither.
 * */
RUSH_API rush_value rush_object_attr(rush_value object, const char *name);
/* Names of an object's attributes, in order; static while the object lives.  0 for anything else.
 * */
RUSH_API size_t rush_object_n_attrs(rush_value object);
RUSH_API const char *rush_object_attr_name(rush_value object, size_t i);
/* What attribute i of a module's object is: a parameter, a buffer, a submodule (bits), or 0. */
enum { RUSH_SLOT_PARAMETER = 1, RUSH_SLOT_BUFFER = 2, RUSH_SLOT_MODULE = 4 };
RUSH_API unsigned rush_object_slot_kind(rush_value object, size_t i);
/* Is it an instance of a module's class? */
RUSH_API bool rush_object_is_module(rush_value object);
/* Sets an attribute; the value is converted to the attribute's type where TorchScript would, else
 * refused. */
RUSH_API rush_status rush_object_set_attr(rush_context *c, rush_value object, const char *name,
                                          rush_value v, rush_error *err) RUSH_CHECKED;
/* The text that print() shows (repr false) or repr (true); new, free with rush_free_text. */
RUSH_API rush_status rush_value_to_text(rush_context *c, rush_value v, bool repr, char **out,
                                        rush_error *err) RUSH_CHECKED;
RUSH_API void rush_free_text(rush_context *c, char *text);

/* -- Programs and modules ---------------------------------------------------------------------- */

typedef struct rush_load_options {
  size_t struct_bytes;
  bool check_full;  /* CRC of every record, not only of the small ones */
  /* read the file into memory instead of mapping it: for a file that may change while it is open */
  bool copy;
  bool meta; /* tensors have sizes and no data (rush_tensor_is_meta): nothing of them is read */
  const char *name; /* for messages, where there is no path */
  /* of a torch.export package with several programs; NULL: "model", or the only one */
  const char *program;
} rush_load_options;
#define RUSH_LOAD_OPTIONS_INIT {sizeof(rush_load_options), false, false, false, NULL, NULL}

/* A TorchScript or torch.export archive from a path (mapped; its tensors are used in place). */
RUSH_API rush_status rush_module_load(rush_context *c, const char *path,
                                      const rush_load_options *options, rush_module **out,
                                      rush_error *err) RUSH_CHECKED;
/* From memory.  Copied unless deleter is given: then the bytes must live until deleter(user, data).
 * */
RUSH_API rush_status rush_module_load_bytes(rush_context *c, const void *data, size_t n_bytes,
                                            void (*deleter)(void *user, void *data), void *user,
                                            const rush_load_options *options, rush_module **out,
                                            rush_error *err) RUSH_CHECKED;
/* From callbacks: read(user, offset, buffer, n) fills n bytes and returns 0, or anything else on
 * failure. */
RUSH_API rush_status rush_module_load_reader(rush_context *c, uint64_t size_bytes,
                                             int (*read)(void *user, uint64_t offset, void *buffer,
                                                         size_t n),
                                             void *user, const rush_load_options *options,
                                             rush_module **out, rush_error *err) RUSH_CHECKED;
/* Where a text comes from, for messages.  Start from RUSH_TEXT_OPTIONS_INIT. */
typedef struct rush_text_options {
  size_t struct_bytes;
  const char *name;    /* a file's; NULL: "<string>" */
  uint32_t first_line; /* number of the text's first line; 0: 1 */
} rush_text_options;
#define RUSH_TEXT_OPTIONS_INIT {sizeof(rush_text_options), NULL, 0}

/* TorchScript from a text of n_bytes: functions, script classes, NamedTuples, enums, interfaces,
 * imports and constants (docs/language.md).  All of it is compiled now: errors come here, with
 * place and excerpt.  The functions are the module's methods.  Nothing of Python runs.  options
 * NULL: the usual ones.  *out is new. */
RUSH_API rush_status rush_module_compile(rush_context *c, const char *text, size_t n_bytes,
                                         const rush_text_options *options, rush_module **out,
                                         rush_error *err) RUSH_CHECKED;
/* Add definitions to a module of rush_module_compile; they see the earlier ones.  On failure
 * nothing is added.  Waits for calls that run; what was listed of the module's methods may have
 * moved. */
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
  /* Where the bytes go, in order, instead of into a file; false: they could not be written.  It
   * must not save or change the module.  The path then only names the archive's root folder, or is
   * NULL. */
  bool (*write)(void *user, const void *data, size_t n_bytes);
  void *write_user;
  /* of a module from text: save this function alone, as forward; NULL: all of them */
  const char *function;
} rush_save_options;
#define RUSH_SAVE_OPTIONS_INIT {sizeof(rush_save_options), NULL, 0, NULL, NULL, NULL}

/* A TorchScript archive that PyTorch (torch.jit.load) and rush_module_load open: the module's state
 * as it is now, its code printed from its graphs.  The same module gives the same bytes.  A file is
 * complete or as it was before: it is written beside its place and renamed.  Functions of a text
 * become methods of a module; a text with one function saves it as forward.  Calls that change the
 * module's state wait.  Exported programs: RUSH_EUNSUPPORTED. */
RUSH_API rush_status rush_module_save(rush_module *m, const char *path,
                                      const rush_save_options *options,
                                      rush_error *err) RUSH_CHECKED;
/* The same for a submodule or another object of a script class, which nobody may change meanwhile.
 * */
RUSH_API rush_status rush_object_save(rush_context *c, rush_value object, const char *path,
                                      const rush_save_options *options,
                                      rush_error *err) RUSH_CHECKED;
/* Files that the author put into an archive, in its order.  Name and bytes are borrowed; NULL:
 * there is no such file. */
RUSH_API size_t rush_module_n_extra_files(const rush_module *m);
RUSH_API const char *rush_module_extra_file(const rush_module *m, size_t i, const void **data,
                                            size_t *n_bytes);
/* Another instance with state of its own: parameters shared, buffers and attributes copied when
 * `deep`. */
RUSH_API rush_status rush_module_copy(rush_module *m, rush_module **out,
                                      rush_error *err) RUSH_CHECKED;

/* A module around an object that is one (rush_object_is_module): a submodule, called and printed
 * like the whole.  *out is new and takes the locks of `root`, whose object it belongs to (NULL: it
 * has its own). */
RUSH_API rush_status rush_module_around(rush_context *c, rush_value object, rush_module *root,
                                        rush_module **out, rush_error *err) RUSH_CHECKED;

/* Start from RUSH_FREEZE_OPTIONS_INIT. */
typedef struct rush_freeze_options {
  size_t struct_bytes;          /* sizeof(rush_freeze_options) */
  const char *const
    *preserved; /* names that stay: attributes and methods, "sub.weight" for a submodule's */
  size_t n_preserved;
  bool keep_numerics;           /* results keep their bits: batch norms stay out of weights */
  bool fold_only;               /* attributes only: no rush_module_optimize_frozen afterwards */
} rush_freeze_options;
#define RUSH_FREEZE_OPTIONS_INIT {sizeof(rush_freeze_options), NULL, 0, false, false}

/* A module (new) with the submodules of `m` inlined and the attributes that nothing writes to made
 * constants, as torch.jit.freeze does; it has forward and what is preserved, and shares memory with
 * `m`.  RUSH_ERAISED, a RuntimeError: `m` is in training mode, or has nothing of a preserved name.
 * RUSH_EUNSUPPORTED: exported programs. */
RUSH_API rush_status rush_module_freeze(rush_module *m, const rush_freeze_options *options,
                                        rush_module **out, rush_error *err) RUSH_CHECKED;
/* What constants allow, over forward and the preserved methods of a frozen module: dropout goes,
 * batch norms and arithmetic with constants go into the weights before them.  Not while `m` is
 * called. */
RUSH_API rush_status rush_module_optimize_frozen(rush_module *m, const rush_freeze_options *options,
                                                 rush_error *err) RUSH_CHECKED;

typedef enum rush_format { RUSH_FORMAT_TORCHSCRIPT, RUSH_FORMAT_EXPORT } rush_format;
RUSH_API rush_format rush_module_format(const rush_module *m);
/* May a call draw random numbers? */
RUSH_API bool rush_module_is_random(rush_module *m);
/* The instance as a value (an object); borrowed. */
RUSH_API rush_value rush_module_value(const rush_module *m);

/* Methods that can be called, and their schemas ("forward(Tensor x) -> Tensor"); static while m
 * lives. */
RUSH_API size_t rush_module_n_methods(const rush_module *m);
RUSH_API const char *rush_module_method_name(const rush_module *m, size_t i);
/* New text (rush_free_text). */
RUSH_API rush_status rush_module_method_schema(rush_module *m, const char *method, char **out,
                                               rush_error *err) RUSH_CHECKED;

/* What a method takes and what it returns, as data.  Immutable: any number of threads may read it.
 * It holds on to nothing of the module but default values and constants.
 *
 *   rush_signature *s;         rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
 *   rush_module_signature(m, NULL, &s, &err);
 *   for (i = 0; rush_signature_input(s, i, &item); i++)
 *     printf("%s: %s\n", item.name, item.type);
 *   rush_signature_release(s);
 *
 * Inputs of a TorchScript method are its parameters without self.  Inputs of an exported program
 * are the leaves of its arguments, in order: a dict argument `d` of two tensors is two inputs,
 * "d['a']" and "d['b']".  Outputs are the result's leaves: a tuple counts as its items, also inside
 * of tuples; an exported program's lists and dicts do as well, those of TorchScript, whose lengths
 * are not known, are one output.  They are named "output", "output[0]", "output['logits']",
 * "output.scores". */
typedef struct rush_signature rush_signature;

/* A size of a tensor, or the value of an int, in an exported program.  This struct does not grow.
 * */
typedef struct rush_signature_size {
  int64_t value;      /* in the example that the program was made with; -1: not known */
  int64_t min,
    /* what it may be; INT64_MIN and INT64_MAX: no limit is known. Both are `value` where it is
     * fixed */
    max;
  /* "s77", or a formula of such, "2*s77 + 1": equal ones are equal in every call. NULL: it is
   * fixed */
  const char *symbol;
} rush_signature_size;

typedef struct rush_signature_item {
  size_t struct_bytes;
  const char *name;         /* of an input: "x", "d['a']"; of an output: "output", "output[1]" */
  const char *type;         /* as annotations have it: "Tensor", "Optional[List[int]]" */
  /* input: number of the argument that it is, or is in; output: of the result's item, or 0 */
  size_t argument;
  bool keyword_only;        /* input: its argument is given by name */
  bool has_default;         /* input: the argument may be left out, it is `value` then */
  /* input of an exported program: a call must pass `value`; None is not compared */
  bool is_constant;
  rush_value value;         /* borrowed; None unless it has a default or is a constant */
  bool is_described;        /* the fields below are known: tensors and ints of exported programs */
  rush_dtype dtype;         /* of a tensor */
  int n_sizes;              /* dimensions of a tensor; of an int 1: its value */
  const rush_signature_size *sizes;   /* n_sizes; borrowed from the signature */
} rush_signature_item;
#define RUSH_SIGNATURE_ITEM_INIT                                                                  \
  {                                                                                               \
    sizeof(rush_signature_item), NULL, NULL, 0, false, false, false, {RUSH_TAG_NONE, 0, {false}}, \
      false, RUSH_UINT8, 0, NULL                                                                  \
  }

/* Of a method (NULL: "forward").  A TorchScript method whose result is not annotated is compiled.
 * *out is new.  RUSH_EARGUMENT: there is no such method. */
RUSH_API rush_status rush_module_signature(rush_module *m, const char *method, rush_signature **out,
                                           rush_error *err) RUSH_CHECKED;
RUSH_API void rush_signature_release(rush_signature *s);
RUSH_API size_t rush_signature_n_inputs(const rush_signature *s);
RUSH_API size_t rush_signature_n_outputs(const rush_signature *s);
/* Fill the first out->struct_bytes of *out with input or output i; false: there is none.  What it
 * points to lives as long as s. */
RUSH_API bool rush_signature_input(const rush_signature *s, size_t i, rush_signature_item *out);
RUSH_API bool rush_signature_output(const rush_signature *s, size_t i, rush_signature_item *out);

typedef struct rush_named_value {
  const char *name;
  rush_value value;
} rush_named_value;

/* Who keeps the gradients of leaves of its own while a program asks for gradients (backward()
 * inside, .grad): a host whose tensors the program uses.  *known false: it has nothing to do with
 * the leaf, which then keeps its own. */
typedef struct rush_gradient_host {
  size_t struct_bytes; /* sizeof(rush_gradient_host); both functions are needed */
  void *user;
  /* What it has: new, or None. */
  rush_status (*get)(void *user, rush_value leaf, bool *known, rush_value *grad, rush_error *err);
  /* `grad` arrived at the leaf; recorded where create_graph. */
  rush_status (*add)(void *user, rush_value leaf, rush_value grad, bool create_graph,
                     bool retain_graph, bool *known, rush_error *err);
} rush_gradient_host;

typedef struct rush_call_options {
  size_t struct_bytes;
  bool no_grad;         /* torch.no_grad() around the call */
  double limit_seconds; /* 0: the context's */
  struct rush_cancel *cancel; /* NULL: none */
  /* Record the call, so that rush_gradients can be asked of its results; with no_grad only of what
   * the program computes where it enables gradients. Without it a program that asks for gradients
   * itself (torch.autograd.grad, backward()) records what it computes, and nothing else does:
   * results do not require grad, parameters may be written in place, and groups that parameters
   * enter are compiled. */
  bool record_gradients;
  /* NULL: none; used on the calling thread, until the call returns */
  const rush_gradient_host *gradient_host;
  /* Output buffers: outputs[i] is the tensor that output i of the method (rush_signature_output)
   * goes to, or None for one that the library makes.  After success the result holds these very
   * tensors, and they the values.
   *
   * Where the program's last operator on an output can, it writes to the buffer itself; else the
   * values are copied there at the call's end: outputs that are views, inputs or parameters, that
   * are returned twice or used otherwise, whose operator chooses its memory itself, and buffers
   * that share memory with an argument.  outputs_copied says which.
   *
   * A buffer has the result's dtype and sizes, and is contiguous or has the result's strides; it
   * can be written to and does not require grad.  RUSH_EARGUMENT (a ValueError that says what was
   * expected): it is another one, shares memory with another buffer or with the module's state, or
   * output i is no tensor.  What the result is like is known at the end only: the call has then
   * done what it does. After any failure the elements of buffers are undefined.  Calls that run at
   * once need buffers of their own.
   *
   * Output buffers are for methods of modules: rush_object_call, rush_op_call_with and
   * rush_module_prepare refuse them (RUSH_EARGUMENT). */
  const rush_value *outputs;
  size_t n_outputs;     /* at most as many as there are outputs; the others are the library's */
  bool *outputs_copied; /* NULL, or room for n_outputs: set on success */
} rush_call_options;
#define RUSH_CALL_OPTIONS_INIT                                              \
  {                                                                         \
    sizeof(rush_call_options), false, 0.0, NULL, false, NULL, NULL, 0, NULL \
  }

/* Call a method (NULL: "forward") with positional arguments.  *result is new. */
RUSH_API rush_status rush_module_call(rush_module *m, const char *method, const rush_value *args,
                                      size_t n_args, rush_value *result,
                                      rush_error *err) RUSH_CHECKED;
/* The same with named arguments and options. */
RUSH_API rush_status rush_module_call_named(rush_module *m, const char *method,
                                            const rush_value *args, size_t n_args,
                                            const rush_named_value *named, size_t n_named,
                                            const rush_call_options *options, rush_value *result,
                                            rush_error *err) RUSH_CHECKED;
/* Compile what the first call of a method (NULL: "forward") would, so that the call itself compiles
 * nothing (rush_compile_counters: functions, groups and plans stay as they are).
 *
 * With arguments the method is run once, on copies: arguments and, if the method changes state, the
 * module's whole state are copied, random numbers come from a generator of their own, and what the
 * program prints or warns about is dropped. Nothing that a later call could see changes.  A tensor
 * without data (rush_tensor_new_meta) as an argument stands for zeros of its sizes.  Calls that
 * take another way through the program, or arguments of other dtypes, may still compile.  Options
 * hold as for a call: give record_gradients if the call will record.  Operators and backends from
 * outside really run.
 *
 * Without arguments (args and named NULL) a program of torch.export is run with its sample inputs
 * (rush_module_samples). Where there are none, and for TorchScript methods that need arguments,
 * nothing is run: every function that the method can be seen to call is compiled, and groups for
 * float32 tensors.  Methods that are called through an interface are not among them.
 *
 * Fails as the call would. */
RUSH_API rush_status rush_module_prepare(rush_module *m, const char *method, const rush_value *args,
                                         size_t n_args, const rush_named_value *named,
                                         size_t n_named, const rush_call_options *options,
                                         rush_error *err) RUSH_CHECKED;
/* The arguments that an exported program was made with: a tuple of the positional ones (a tuple)
 * and of those by name (a dict), new.  None if the archive has no sample inputs, as those of
 * TorchScript. */
RUSH_API rush_status rush_module_samples(rush_module *m, rush_value *out,
                                         rush_error *err) RUSH_CHECKED;

/* -- Gradients --------------------------------------------------------------------------------- */

/* Calls with record_gradients leave records behind what is computed from tensors that require grad
 * (rush_tensor_set_requires_grad: leaves; parameters that do).  Results hold on to the records, and
 * these to the values that gradients need.
 *
 *   rush_tensor_set_requires_grad(x.as.tensor, true);
 *   options.record_gradients = true;                 rush_module_call_named(m, "forward", &x, 1,
 *   NULL, 0, &options, &y, &err); rush_gradients(NULL, &y, NULL, 1, &x, 1, NULL, &dx, &err);
 *
 * Threads: the runs over one result's records, one at a time.  Calls may share leaves. */
typedef struct rush_gradient_options {
  size_t struct_bytes;
  bool create_graph; /* the gradients are recorded too: their gradients can be asked */
  bool retain_graph; /* the records can be used again; create_graph implies it */
  bool allow_unused; /* None for inputs that the outputs do not depend on, instead of an error */
} rush_gradient_options;
#define RUSH_GRADIENT_OPTIONS_INIT {sizeof(rush_gradient_options), false, false, false}

/* Vector-Jacobian products: results[i] (new) is the gradient of inputs[i], for gradients
 * grad_outputs[] of the outputs (NULL, or None where an output has one element: ones).  All are
 * tensors.  options NULL: the usual ones.  RUSH_ERAISED with PyTorch's words: an output does not
 * require grad, an input is not used, a saved value was written to since, an operator has no
 * derivative, the records were used up. */
RUSH_API rush_status rush_gradients(rush_context *c, const rush_value *outputs,
                                    const rush_value *grad_outputs, size_t n_outputs,
                                    const rush_value *inputs, size_t n_inputs,
                                    const rush_gradient_options *options, rush_value *results,
                                    rush_error *err) RUSH_CHECKED;
/* The same for all leaves that the outputs depend on: what comes is added to their gradients
 * (rush_tensor_grad). */
RUSH_API rush_status rush_backward(rush_context *c, const rush_value *outputs,
                                   const rush_value *grad_outputs, size_t n_outputs,
                                   const rush_gradient_options *options,
                                   rush_error *err) RUSH_CHECKED;
/* What rush_backward added up for a leaf, new, or None; and setting it (None: nothing).
 * RUSH_EARGUMENT: not of the leaf's dtype and sizes. */
RUSH_API rush_value rush_tensor_grad(const rush_tensor *t);
RUSH_API rush_status rush_tensor_set_grad(rush_tensor *t, rush_value grad,
                                          rush_error *err) RUSH_CHECKED;
/* Is it the result of a recorded operator? */
RUSH_API bool rush_tensor_is_recorded(const rush_tensor *t);
/* The tensor that recorded operators made t a view of, borrowed, or NULL. */
RUSH_API const rush_tensor *rush_tensor_base(const rush_tensor *t);
/* A leaf, as every tensor of the caller's that requires grad is, may not be written to while
 * gradients are recorded.  A tensor that stands for something computed elsewhere may (off); what it
 * held before a write is then among rush_gradient_leaves. */
RUSH_API void rush_tensor_set_leaf(rush_tensor *t, bool on);
/* The leaves that gradients of these tensors would reach, a list, new. */
RUSH_API rush_status rush_gradient_leaves(rush_context *c, const rush_value *tensors, size_t n,
                                          rush_value *out, rush_error *err) RUSH_CHECKED;
/* Of the very tensor that rush_tensor_wrap made with this deleter: its `user`.  NULL for any other:
 * how a host finds its own object. */
RUSH_API void *rush_tensor_user(const rush_tensor *t, void (*deleter)(void *user, void *data));

/* A method of any object (a submodule, an instance of a script class), called like a module's.  The
 * lock of the module that the object was read from is taken; other objects have none, and are for
 * one thread at a time. */
RUSH_API bool rush_object_has_method(rush_value object, const char *method);
RUSH_API rush_status rush_object_call(rush_context *c, rush_value object, const char *method,
                                      const rush_value *args, size_t n_args,
                                      const rush_named_value *named, size_t n_named,
                                      const rush_call_options *options, rush_value *result,
                                      rush_error *err) RUSH_CHECKED;

/* Parameters and buffers by qualified name ("layer1.0.weight"): index, or the named one; new. */
RUSH_API size_t rush_module_n_state(rush_module *m);
RUSH_API rush_status rush_module_state_at(rush_module *m, size_t i, char **name, bool *is_parameter,
                                          rush_value *out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_module_get_state(rush_module *m, const char *name, rush_value *out,
                                           rush_error *err) RUSH_CHECKED;
/* Copies the tensor's elements into the named one; dtype and sizes must agree. */
RUSH_API rush_status rush_module_set_state(rush_module *m, const char *name, rush_value tensor,
                                           rush_error *err) RUSH_CHECKED;

/* A method's code as RUSH_DUMP_CODE shows it (new: rush_free_text), and what it calls CONSTANTS.c0,
 * .c1 ...: a tuple, new.  Not of exported programs. */
RUSH_API rush_status rush_module_code(rush_module *m, const char *method, char **text,
                                      rush_value *constants, rush_error *err) RUSH_CHECKED;

/* Texts about a module; new (rush_free_text). */
typedef enum rush_dump {
  RUSH_DUMP_CODE, /* TorchScript printed from graphs: a method as PyTorch's `.code` shows it; without a name all that
                     * an archive would hold.  Exported programs as PyTorch prints their graph's
                     * code */
  RUSH_DUMP_GRAPH, /* IR of one method; of all where there is neither a name nor a forward */
  RUSH_DUMP_BYTECODE,
  /* "name count runs|schema only|unknown" a line; of functions, "does not compile" */
  RUSH_DUMP_OPS,
  RUSH_DUMP_SUMMARY,
  RUSH_DUMP_SCHEMA,    /* a method's declaration, or those of all */
  RUSH_DUMP_DOT,       /* a method's graph in Graphviz's language */
  RUSH_DUMP_DIGEST,    /* hashes of methods and state: equal programs have equal ones */
  RUSH_DUMP_OPTIMIZED, /* the graph that runs: what passes made of a method's graph */
  RUSH_DUMP_GROUPS,    /* the same, with the reason why each other node is in no group */
  RUSH_DUMP_ASM, /* what the groups were compiled to, for the arguments they are likely to get */
  /* one JSON object: functions with their graphs, operators, sources; of one method or of all */
  RUSH_DUMP_JSON,
  /* what verifying all that methods reach found wrong, a line each; "" when all is well */
  RUSH_DUMP_FAULTS,
  /* inputs and outputs of a method, or of all, a line each, as rush_module_signature has them */
  RUSH_DUMP_SIGNATURE,
  RUSH_DUMP_TREES, /* {"arg_names": [...], "in": SPEC, "out": SPEC}: the tree specs of an exported program, as the file has
                     * them, where they name classes (dataclasses, OrderedDict ...); "" where all is
                     * tuples, lists and dicts */
  RUSH_DUMP_BYTECODE_JSON, /* {"functions": [{"name", "registers", "constants", "arguments", "instructions": [{"pc", "op",
                     * "operator"|"function"|"name", "inputs", "outputs", "a", "b", "c", "to", "at":
                     * {"file", "line", "column"}}]}]} */
  RUSH_DUMP_ASM_JSON /* {"functions": [{"name", "groups": [{"operator", "pc", "at", "lines": [{"address", "bytes", "text"}
                     * | {"label"} | {"text"}]}]}]} */
} rush_dump;
RUSH_API rush_status rush_module_dump(rush_module *m, rush_dump what, const char *method,
                                      char **out, rush_error *err) RUSH_CHECKED;

/* A cancellation flag for use from another thread. */
typedef struct rush_cancel rush_cancel;
RUSH_API rush_cancel *rush_cancel_create(rush_context *c); /* new, or NULL without memory */
RUSH_API void rush_cancel_request(rush_cancel *k);         /* any thread */
RUSH_API void rush_cancel_release(rush_cancel *k);

/* -- Profiles ---------------------------------------------------------------------------------- */

/* A context records what its calls do: every operator and every method or function of a program,
 * with times, inputs and source lines.  While no profile is on this costs nothing.  One profile a
 * context at a time; it holds what ran between start and stop, and stays readable until the next
 * start or the context's end. */

typedef enum rush_profile_kind {
  RUSH_PROFILE_FUNCTION, /* a method or function of a program */
  RUSH_PROFILE_OPERATOR
} rush_profile_kind;

/* What ran once.  Events of one thread nest: an event's children follow it, one deeper.  Strings
 * are borrowed until the next start. */
typedef struct rush_profile_event {
  const char *name;      /* "aten::conv2d", "__torch__.M.forward" */
  rush_profile_kind kind;
  uint32_t thread;       /* 0, 1, ... in the order that threads appeared */
  uint32_t depth;        /* 0: called from outside */
  uint64_t start_ns;     /* monotonic clock */
  uint64_t end_ns;       /* 0: it had not ended */
  int64_t bytes;         /* by how much the context's live bytes grew meanwhile */
  const char *inputs;    /* an operator's tensors, "float32[1, 3, 8, 8], float32[4]"; else "" */
  /* of the line that called it, as its author wrote it where the archive says so; or NULL */
  const char *file;
  const char *code;      /* that line's text, or NULL */
  const char *caller;    /* the function whose graph has the call, or NULL */
  uint32_t line;         /* from 1; 0 when nobody knows */
  uint32_t node;         /* which node of that graph: `id` in RUSH_DUMP_JSON */
} rush_profile_event;

/* Record the calls that start from now on, at most max_events (0: a million) events; what an
 * earlier profile held is forgotten. */
RUSH_API rush_status rush_profile_start(rush_context *c, size_t max_events,
                                        rush_error *err) RUSH_CHECKED;
/* Calls that start from now on are not recorded. */
RUSH_API void rush_profile_stop(rush_context *c);
/* Events in the record, in the order in which they began; *n_dropped (may be NULL): how many did
 * not fit. */
RUSH_API size_t rush_profile_n_events(rush_context *c, uint64_t *n_dropped);
/* Event i into *out; false when there is none. */
RUSH_API bool rush_profile_event_at(rush_context *c, size_t i, rush_profile_event *out);

/* What an operator gave that a program called.  All is borrowed until the function returns. */
typedef struct rush_watched {
  size_t struct_bytes;
  const char *name;       /* with the overload: "aten::add.Tensor" */
  /* the function whose graph has the call, or NULL; file, code, line and node as in
   * rush_profile_event */
  const char *caller;
  const char *file, *code;
  uint32_t line, node;
  const rush_value *results;
  size_t n_results;
} rush_watched;
typedef void rush_watch_fn(void *user, const rush_watched *what);

/* Call fn(user, ...) after every operator that a program calls from this thread, in the order in
 * which they end, in calls that start from now on.  Operators that other operators call are part of
 * these.  Memory of results is used again once nothing needs it: copy what you keep (operators that
 * fn calls are not watched).  A compiled group counts as its operators only in contexts with
 * RUSH_EXECUTOR_SIMPLE.  While nobody watches this costs nothing. */
RUSH_API rush_status rush_watch_start(rush_context *c, rush_watch_fn *fn, void *user,
                                      rush_error *err) RUSH_CHECKED;
/* End the watch that was started on this thread with these two. */
RUSH_API void rush_watch_stop(rush_context *c, rush_watch_fn *fn, void *user);

/* -- Plug-ins ---------------------------------------------------------------------------------- */

/* Open a shared object and let it register its operators and passes in the context (backend.h).  It
 * is code and runs as such: load only what you trust.  It stays loaded.  RUSH_EIO: it cannot be
 * opened; RUSH_EARGUMENT: it is no plug-in, was built for another version, or what it registers is
 * refused.  Of a plug-in that fails half-way what it had registered stays. */
RUSH_API rush_status rush_plugin_load(rush_context *c, const char *path,
                                      rush_error *err) RUSH_CHECKED;

/* -- Single operators and data files ----------------------------------------------------------- */

/* Call "aten::add" with the first overload that fits, or "aten::add.Tensor".  *results: at most
 * max_results, new. */
RUSH_API rush_status rush_op_call(rush_context *c, const char *name, const rush_value *args,
                                  size_t n_args, const rush_named_value *named, size_t n_named,
                                  rush_value *results, size_t max_results, size_t *n_results,
                                  rush_error *err) RUSH_CHECKED;
/* The same with options (NULL: the usual ones): record_gradients records the one operator. */
RUSH_API rush_status rush_op_call_with(rush_context *c, const char *name, const rush_value *args,
                                       size_t n_args, const rush_named_value *named, size_t n_named,
                                       const rush_call_options *options, rush_value *results,
                                       size_t max_results, size_t *n_results,
                                       rush_error *err) RUSH_CHECKED;
/* What the results of such a call would look like; it is not run.  *result, new, is a tuple
 *     (operator with overload, name of its shape rule, results, guards, symbols)
 * of two texts and three lists.  A result is a tuple (number of the result in the schema, sizes,
 * strides, offset, dtype, number of the argument whose memory it is or -1, is it that argument
 * itself).  `symbolic`: sizes of tensor arguments larger than 1 are taken as unknown, equal ones as
 * equal; then sizes, strides and offset follow again as formulas (texts) after the numbers, guards
 * are the conditions under which the formulas hold, and symbols are tuples (name, its value in this
 * call or None, least, largest or None).
 * -1 stands for sizes that only data tells.  RUSH_EUNSUPPORTED: the operator has no shape rule. */
RUSH_API rush_status rush_op_shape(rush_context *c, const char *name, const rush_value *args,
                                   size_t n_args, const rush_named_value *named, size_t n_named,
                                   bool symbolic, rush_value *result, rush_error *err) RUSH_CHECKED;
/* Is there an operator of this name, with any overload unless one is given? */
RUSH_API bool rush_op_exists(rush_context *c, const char *name);
/* The schemas of all operators that can run (name NULL), or of one operator's overloads that can, a
 * line each; where it is known, a tab and the classes of dtypes that it computes in follow: "bool
 * int float complex".  Operators from outside are not among them.  *text is freed with
 * rush_free_text. */
RUSH_API rush_status rush_op_schemas(rush_context *c, const char *name, char **text,
                                     rush_error *err) RUSH_CHECKED;
/* An operator looked up once, for repeated calls with complete arguments. */
typedef struct rush_operator rush_operator;
/* Borrowed from the context; NULL when unknown. */
RUSH_API const rush_operator *rush_op_find(rush_context *c, const char *name);
RUSH_API rush_status rush_op_run(const rush_operator *op, const rush_value *args, size_t n_args,
                                 rush_value *results, size_t n_results,
                                 rush_error *err) RUSH_CHECKED;

/* Gradients of the operator "aten::mul.Tensor" (an in-place or out= variant has its base's): how
 * many formulas there are, and of formula i the arguments that it is for and the values that it
 * takes, as names with spaces between. */
RUSH_API rush_status rush_op_n_gradients(rush_context *c, const char *name, size_t *n,
                                         rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_op_gradient(rush_context *c, const char *name, size_t i,
                                      const char **inputs, const char **takes,
                                      rush_error *err) RUSH_CHECKED;
/* Formula i of values[n_values], in the order of `takes`: "grad" ("grad0"...) is the gradient of
 * the (first...) result, "result" that result, "needs" a list of bool, "self_sizes" the sizes of an
 * argument, everything else an argument.  results[n_inputs] are new, in the order of `inputs`, and
 * have the sizes and dtypes of inputs[], which are the arguments (or None). */
RUSH_API rush_status rush_op_gradient_run(rush_context *c, const char *name, size_t i,
                                          const rush_value *values, size_t n_values,
                                          const rush_value *inputs, size_t n_inputs,
                                          rush_value *results, rush_error *err) RUSH_CHECKED;

/* A value from a file: torch.save archives of plain data, .npy, .npz (a dict), .safetensors (a
 * dict).  New. */
RUSH_API rush_status rush_value_load(rush_context *c, const char *path, rush_value *out,
                                     rush_error *err) RUSH_CHECKED;
/* The same with options (NULL: the usual ones); `meta` is for modules only: RUSH_EARGUMENT. */
RUSH_API rush_status rush_value_load_with(rush_context *c, const char *path,
                                          const rush_load_options *options, rush_value *out,
                                          rush_error *err) RUSH_CHECKED;
/* The same from memory, which is copied. */
RUSH_API rush_status rush_value_load_bytes(rush_context *c, const void *data, size_t n_bytes,
                                           const rush_load_options *options, rush_value *out,
                                           rush_error *err) RUSH_CHECKED;
/* Write a value to a file, in the format that the path's end names: .npy (one tensor), .npz and
 * .safetensors (tensors: a dict by its keys, a list or tuple by numbers), .pt or .pth (torch.save:
 * tensors, numbers, texts, lists, tuples, dicts).  A file is complete or as it was before.
 * RUSH_EARGUMENT: another ending, or what the format cannot hold. */
RUSH_API rush_status rush_value_save(rush_context *c, const char *path, rush_value v,
                                     rush_error *err) RUSH_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
