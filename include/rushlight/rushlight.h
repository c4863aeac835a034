/* rushlight.h -- open PyTorch programs and run them, without PyTorch.
 *
 * The main job in five calls (errors left out):
 *
 *   rush_module *m;            rush_module_load(NULL, "model.pt", NULL, &m, &err);
 *   rush_value x, y;           rush_value_from_data(NULL, RUSH_FLOAT32, 2, sizes, NULL, p, NULL, NULL, &x, &err);
 *                              rush_module_call(m, "forward", &x, 1, &y, &err);
 *                              rush_tensor_data(y.as.tensor) ...
 *                              rush_value_release(y); rush_value_release(x); rush_module_release(m);
 *
 * Ownership.  Three words, used in no other sense.  *new*: the caller releases the result.
 * *borrowed*: valid while what it came from lives.  *steals*: the callee owns the argument even when
 * it fails.  An argument of which nothing is said is borrowed for the call.  Out-parameters are
 * written only on success.  Releasing NULL (or a value without a heap part) does nothing.
 *
 * Errors.  Functions that can fail return a status and fill a `rush_error` that the caller owns
 * (NULL: not interested).  Nothing here prints, aborts, exits, or keeps a "last error".
 *
 * Contexts.  A context argument of NULL means the default context, made at first use.  A context
 * outlives every value made in it; modules hold on to theirs.
 *
 * Threads.  Contexts and programs are locked inside: any number of threads may use them.  A module
 * may be called by many threads at once; calls that change its state run alone.  A single value is
 * for one thread at a time unless nobody writes to it.
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

/* -- Status and errors ------------------------------------------------------------------------ */

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

/* Belongs to the caller: start with RUSH_ERROR_INIT, rush_error_clear when done.  Reusable. */
typedef struct rush_error {
  rush_status status;
  const char *type;      /* Python exception class: "RuntimeError", "IndexError", "Error" ...; static */
  const char *message;   /* what was expected, what came, where; NULL when status is RUSH_OK */
  const char *traceback; /* TorchScript traceback, or NULL */
  void *owned;           /* internal */
} rush_error;

#define RUSH_ERROR_INIT {RUSH_OK, NULL, NULL, NULL, NULL}

/* Free what the error holds and make it RUSH_ERROR_INIT again. */
RUSH_API void rush_error_clear(rush_error *err);
/* A word for the status, "out of memory": a static string. */
RUSH_API const char *rush_status_name(rush_status status);

/* -- Data types --------------------------------------------------------------------------------- */

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

/* -- Values ------------------------------------------------------------------------------------- */

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

#ifdef __cplusplus
}
#endif
#endif
