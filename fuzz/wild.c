/* Values of a type from bytes: see wild.h. */
#include "wild.h"

#include <math.h>

#include "tensor/generator.h"

/* -- Choices ----------------------------------------------------------------------------------- */

static uint64_t next_random(wild *w)
{
  uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

uint32_t wild_pick(wild *w, uint32_t n)
{
  if (w->p >= w->end)
    return (uint32_t)(next_random(w) % n);
  uint32_t x = *w->p++;
  if (n > 256 && w->p < w->end)
    x = x << 8 | *w->p++;
  return x % n;
}

static bool one_in(wild *w, uint32_t n) { return wild_pick(w, n) == 0; }

static int pick_dtype(wild *w)
{
  static const int8_t usual[] = {RUSH_FLOAT32, RUSH_FLOAT32,  RUSH_FLOAT32, RUSH_FLOAT64,
                                 RUSH_INT64,   RUSH_INT64,    RUSH_INT32,   RUSH_BOOL,
                                 RUSH_FLOAT16, RUSH_BFLOAT16, RUSH_UINT8,   RUSH_COMPLEX64};
  int d = one_in(w, 4) ? (int)wild_pick(w, N_DTYPES) : usual[wild_pick(w, COUNT_OF(usual))];
  return dtype_is_valid(d) && dtype_class_of(d) != DTYPE_QUANT ? d : RUSH_FLOAT32;
}

static int64_t pick_size(wild *w)
{
  static const int16_t sizes[] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 16, 17, 33, 300};
  return sizes[wild_pick(w, COUNT_OF(sizes))];
}

/* Fill sizes; the product stays below WILD_MOST_ELEMS. */
static int pick_shape(wild *w, int64_t *sizes)
{
  static const int8_t dims[] = {0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6};
  int n = dims[wild_pick(w, COUNT_OF(dims))];
  int64_t total = 1;
  for (int i = 0; i < n; i++) {
    sizes[i] = pick_size(w);
    if (total * i64_max(sizes[i], 1) > WILD_MOST_ELEMS)
      sizes[i] = 1;
    total *= i64_max(sizes[i], 1);
  }
  return n;
}

void wild_init(wild *w, call_ctx *cx, type_store *types, const uint8_t *data, size_t n)
{
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < n; i++)
    hash = (hash ^ data[i]) * UINT64_C(1099511628211);
  *w = (wild){.cx = cx, .types = types, .p = data, .end = data + n, .random = hash};
  w->dtype = pick_dtype(w);
  w->n_dims = pick_shape(w, w->sizes);
}

void wild_done(wild *w)
{
  while (w->n_seen > 0)
    tensor_release(w->seen[--w->n_seen]);
}

/* -- Numbers and texts ------------------------------------------------------------------------- */

static int64_t pick_int(wild *w)
{
  static const int64_t odd[] = {INT64_MIN,
                                INT64_MAX,
                                INT64_MIN + 1,
                                INT64_MAX - 1,
                                INT32_MIN,
                                INT32_MAX,
                                UINT32_MAX,
                                INT64_C(1) << 31,
                                INT64_C(1) << 32,
                                INT64_C(1) << 40,
                                INT64_C(1) << 61,
                                INT64_C(1) << 62,
                                INT64_C(2305843009213693953),
                                -1000000,
                                1000000,
                                65536,
                                65535,
                                4096,
                                300,
                                100,
                                64,
                                63,
                                33,
                                -100,
                                127,
                                128,
                                255,
                                256,
                                -128,
                                44,
                                10,
                                12};
  if (one_in(w, 8))
    return odd[wild_pick(w, COUNT_OF(odd))];
  if (one_in(w, 4) && w->n_dims)
    return w->sizes[wild_pick(w, (uint32_t)w->n_dims)];
  return (int64_t)wild_pick(w, 9) - 3;
}

static double pick_float(wild *w)
{
  static const double odd[] = {
    NAN,          INFINITY, -INFINITY, -0.0, 1e308, -1e308, 1e-308,
    5e-324,       1e19,     -1e19,     3e38, 1e10,  255.5,  9.2233720368547758e18,
    2147483648.0, 1e-12,    100,       -100};
  static const double usual[] = {0, 1, 0.5, 2, -1, 0.1, 1e-5, 3, -0.25, 1.5};
  return one_in(w, 4) ? odd[wild_pick(w, COUNT_OF(odd))] : usual[wild_pick(w, COUNT_OF(usual))];
}

static rush_status pick_number(wild *w, bool with_complex, rush_value *out)
{
  const uint32_t kind = wild_pick(w, with_complex ? 8 : 7);
  if (kind < 3)
    *out = value_int(pick_int(w));
  else if (kind < 6)
    *out = value_float(pick_float(w));
  else if (kind == 6)
    *out = value_bool(wild_pick(w, 2));
  else
    return complex_new(w->cx, pick_float(w), pick_float(w), out);
  return RUSH_OK;
}

/* Return a number of a dtype, layout, memory format or quantization scheme: mostly below `n`. */
static int64_t pick_enumerated(wild *w, uint32_t n)
{
  static const int64_t odd[] = {
    -1, 44, 45, 127, 128, 255, 256, 65536, INT32_MAX, INT64_C(1) << 32, INT64_MIN, INT64_MAX};
  return one_in(w, 6) ? odd[wild_pick(w, COUNT_OF(odd))] : (int64_t)wild_pick(w, n);
}

static rush_status pick_text(wild *w, rush_value *out)
{
  static const char *const texts[] = {"",
                                      "mean",
                                      "sum",
                                      "none",
                                      "max",
                                      "linear",
                                      "nearest",
                                      "bilinear",
                                      "bicubic",
                                      "constant",
                                      "reflect",
                                      "replicate",
                                      "circular",
                                      "trunc",
                                      "floor",
                                      "ij",
                                      "xy",
                                      "i,ij->j",
                                      "ij,jk->ik",
                                      "...i,i...->",
                                      "->",
                                      "fro",
                                      "nuc",
                                      "tanh",
                                      "valid",
                                      "same",
                                      "left",
                                      "right",
                                      "L",
                                      "U",
                                      "reduced",
                                      "complete",
                                      "r",
                                      "backward",
                                      "ortho",
                                      "forward",
                                      "cpu",
                                      "cuda:0",
                                      "meta",
                                      "cpu:-1",
                                      "utf-8",
                                      "%s%n%d",
                                      "{}",
                                      "{} {} {}",
                                      "{0}{",
                                      "}",
                                      "1",
                                      "-1",
                                      "1e400",
                                      "0x7fffffffffffffff",
                                      "99999999999999999999",
                                      "nan",
                                      "inf",
                                      " a b\tc\n",
                                      "aaaa",
                                      "\xff\xfe",
                                      "\xe2\x82\xac\xf0\x9f\x98\x80",
                                      "amax",
                                      "prod",
                                      "relu",
                                      "gelu",
                                      "self",
                                      "gru",
                                      "lu",
                                      "eigh",
                                      "gesvd",
                                      "mkldnn",
                                      "\xc3"};
  char bytes[24];
  if (one_in(w, 6)) {
    uint32_t n = wild_pick(w, sizeof bytes);
    for (uint32_t i = 0; i < n; i++)
      bytes[i] = (char)(wild_pick(w, 4) ? ' ' + wild_pick(w, 95) : wild_pick(w, 256));
    return string_new(w->cx, bytes, n, out);
  }
  const char *text = texts[wild_pick(w, COUNT_OF(texts))];
  return string_new(w->cx, text, strlen(text), out);
}

/* -- Tensors ----------------------------------------------------------------------------------- */

static void pick_tensor_shape(wild *w, int *n_dims, int64_t *sizes)
{
  const uint32_t kind = wild_pick(w, 8);
  *n_dims = w->n_dims;
  memcpy(sizes, w->sizes, sizeof w->sizes);
  if (kind < 2) {
    *n_dims = pick_shape(w, sizes);
  } else if (kind == 2) { /* one that broadcasts */
    for (int i = 0; i < *n_dims; i++)
      if (wild_pick(w, 2))
        sizes[i] = 1;
  } else if (kind == 3 && *n_dims) { /* one dimension of it, as a bias has */
    sizes[0] = sizes[wild_pick(w, (uint32_t)*n_dims)];
    *n_dims = 1;
  } else if (kind == 4 &&
             *n_dims > 1) { /* the last two the other way round, as a matrix product's */
    int64_t last = sizes[*n_dims - 1];
    sizes[*n_dims - 1] = sizes[*n_dims - 2];
    sizes[*n_dims - 2] = last;
  }
}

/* Choose strides for the sizes; the elements they reach stay few. */
static void pick_strides(wild *w, int n_dims, const int64_t *sizes, int64_t *strides)
{
  const uint32_t kind = wild_pick(w, 12);
  int64_t turned[WILD_MAX_DIMS], step = 1;
  strides_contiguous(n_dims, sizes, strides);
  switch (kind) {
  case 0: /* transposed */
  case 1:
    for (int i = 0; i < n_dims; i++) {
      turned[i] = step;
      step *= i64_max(sizes[i], 1);
    }
    memcpy(strides, turned, (size_t)n_dims * sizeof *strides);
    break;
  case 2: /* gaps */
    for (int i = 0; i < n_dims; i++)
      strides[i] *= 2;
    break;
  case 3: /* expanded */
    if (n_dims)
      strides[wild_pick(w, (uint32_t)n_dims)] = 0;
    break;
  case 4: /* overlapping */
    for (int i = 0; i < n_dims; i++)
      strides[i] = (int64_t)wild_pick(w, 4);
    break;
  case 5: /* channels last */
    for (int i = n_dims - 1; n_dims > 2 && i >= 0; i--)
      if (i != 1) {
        strides[i] = step * sizes[1];
        step *= i64_max(sizes[i], 1);
      }
    if (n_dims > 2)
      strides[1] = 1;
    break;
  default:
    break;
  }
}

static rush_value pick_element(wild *w, int style)
{
  if (style == 0)
    return value_int((int64_t)wild_pick(w, 5));
  return style == 1     ? value_float((double)wild_pick(w, 9) / 4 - 1)
         : one_in(w, 2) ? value_int(pick_int(w))
                        : value_float(pick_float(w));
}

/* Fill the whole storage: small counts, small fractions, odd numbers, or any bytes. */
static rush_status fill(wild *w, storage *st, int dtype)
{
  const uint32_t style = wild_pick(w, 8) * 3 / 7;
  int64_t n = (int64_t)(st->n_bytes / dtype_bytes(dtype)), one = 1;
  rush_tensor *flat;
  if (style == 3 || n == 0) {
    for (size_t i = 0; i < st->n_bytes; i++)
      ((uint8_t *)st->data)[i] = (uint8_t)next_random(w);
    return RUSH_OK;
  }
  TRY(tensor_new_view(w->cx, st, dtype, 1, &n, &one, 0, &flat));
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *p = w->p; /* elements are not worth the input's bytes */
    w->p = w->end;
    tensor_set(flat, i, pick_element(w, (int)style));
    w->p = p;
  }
  tensor_release(flat);
  return RUSH_OK;
}

static rush_status make_plain(wild *w, int dtype, int n_dims, const int64_t *sizes,
                              rush_tensor **out)
{
  int64_t strides[WILD_MAX_DIMS], reach = 0, n = 1;
  int64_t offset = one_in(w, 4) ? (int64_t)wild_pick(w, 5) : 0;
  storage *st;
  pick_strides(w, n_dims, sizes, strides);
  for (int i = 0; i < n_dims; i++) {
    n *= sizes[i];
    reach += (i64_max(sizes[i], 1) - 1) * strides[i];
  }
  const size_t n_elems = n ? (size_t)(offset + reach + 1) : (size_t)offset;
  TRY(storage_new(w->cx, n_elems * dtype_bytes(dtype), &st));
  rush_status st_made = fill(w, st, dtype);
  if (st_made == RUSH_OK)
    st_made = tensor_new_view(w->cx, st, dtype, n_dims, sizes, strides, offset, out);
  storage_release(st);
  return st_made;
}

static rush_status pick_plain(wild *w, int dtype, rush_tensor **out)
{
  int64_t sizes[WILD_MAX_DIMS];
  int n_dims;
  pick_tensor_shape(w, &n_dims, sizes);
  return make_plain(w, dtype, n_dims, sizes, out);
}

/* Call an operator that makes a value from the arguments, which are released. */
static rush_status made_by(wild *w, const char *name, rush_value *args, uint32_t n_args,
                           rush_value *out)
{
  rush_status st = op_invoke_name(w->cx, name, "", args, n_args, out);
  for (uint32_t i = 0; i < n_args; i++)
    value_release(args[i]);
  return st;
}

static rush_status quantized_channels(wild *w, rush_tensor *ints, rush_value *out)
{
  const int64_t axis = one_in(w, 8) ? pick_int(w) : 0, channels = ints->n_dims ? ints->sizes[0] : 1;
  rush_tensor *scales = NULL, *zeros = NULL;
  rush_status st = make_plain(w, one_in(w, 2) ? RUSH_FLOAT64 : RUSH_FLOAT32, 1, &channels, &scales);
  if (st == RUSH_OK)
    st = make_plain(w, RUSH_INT64, 1, &channels, &zeros);
  if (st == RUSH_OK) {
    rush_value args[] = {value_tensor_steal(ints), value_tensor_steal(scales),
                         value_tensor_steal(zeros), value_int(axis)};
    return made_by(w, "aten::_make_per_channel_quantized_tensor", args, COUNT_OF(args), out);
  }
  tensor_release(ints);
  tensor_release(scales);
  tensor_release(zeros);
  return st;
}

static rush_status pick_quantized(wild *w, rush_value *out)
{
  static const int8_t dtypes[] = {RUSH_UINT8, RUSH_UINT8, RUSH_INT8, RUSH_INT8, RUSH_INT32};
  rush_tensor *ints = NULL;
  TRY(pick_plain(w, dtypes[wild_pick(w, COUNT_OF(dtypes))], &ints));
  if (one_in(w, 3))
    return quantized_channels(w, ints, out);
  const int64_t zero = one_in(w, 4) ? pick_int(w) : (int64_t)wild_pick(w, 6);
  rush_value args[] = {value_tensor_steal(ints), value_float(one_in(w, 4) ? pick_float(w) : 0.25),
                       value_int(zero)};
  return made_by(w, "aten::_make_per_tensor_quantized_tensor", args, COUNT_OF(args), out);
}

static rush_status pick_nested(wild *w, rush_value *out)
{
  rush_list *parts;
  rush_status st = RUSH_OK;
  TRY(list_new(w->cx, type_simple(TYPE_TENSOR), 0, &parts));
  for (uint32_t i = wild_pick(w, 4); i > 0 && st == RUSH_OK; i--) {
    rush_tensor *t;
    st = pick_plain(w, w->dtype, &t);
    if (st == RUSH_OK)
      st = list_append_steal(w->cx, parts, value_tensor_steal(t));
  }
  rush_value args[] = {value_heap_steal(RUSH_TAG_LIST, parts)};
  if (st == RUSH_OK)
    return made_by(w, "aten::_nested_tensor_from_tensor_list", args, 1, out);
  value_release(args[0]);
  return st;
}

/* Set *out to one of this call's tensors, or a view of it. */
static rush_status seen_again(wild *w, rush_value *out)
{
  rush_tensor *t = w->seen[wild_pick(w, w->n_seen)], *view;
  int64_t sizes[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS];
  if (t->extra || wild_pick(w, 2)) {
    *out = value_tensor_steal(tensor_retain(t));
    return RUSH_OK;
  }
  for (int i = 0; i < t->n_dims; i++) { /* transposed */
    sizes[i] = t->sizes[t->n_dims - 1 - i];
    strides[i] = t->strides[t->n_dims - 1 - i];
  }
  TRY(tensor_as_strided(w->cx, t, t->n_dims, sizes, strides, t->offset, &view));
  *out = value_tensor_steal(view);
  return RUSH_OK;
}

static rush_status pick_new_tensor(wild *w, rush_value *out)
{
  const uint32_t kind = wild_pick(w, 40);
  rush_tensor *t = NULL;
  if (kind == 0) { /* undefined */
    *out = value_tensor_steal(NULL);
    return RUSH_OK;
  }
  if (kind == 1)
    return pick_nested(w, out);
  if (kind < 5)
    return pick_quantized(w, out);
  if (kind < 8 && w->n_seen)
    return seen_again(w, out);
  TRY(pick_plain(w, kind < 28 ? w->dtype : pick_dtype(w), &t));
  if (one_in(w, 16) && dtype_class_of(t->dtype) >= DTYPE_FLOAT)
    t->h.flags |= TENSOR_REQUIRES_GRAD;
  *out = value_tensor_steal(t);
  return RUSH_OK;
}

static rush_status pick_tensor(wild *w, rush_value *out)
{
  TRY(pick_new_tensor(w, out));
  if (out->as.tensor && w->n_seen < WILD_MAX_SEEN)
    w->seen[w->n_seen++] = tensor_retain(out->as.tensor);
  return RUSH_OK;
}

rush_status wild_out(wild *w, rush_value *out)
{
  static const int64_t none = 0;
  rush_tensor *t;
  if (wild_pick(w, 2))
    return pick_tensor(w, out);
  TRY(tensor_new(w->cx, one_in(w, 4) ? pick_dtype(w) : w->dtype, 1, &none, &t));
  *out = value_tensor_steal(t);
  return RUSH_OK;
}

static rush_status pick_storage(wild *w, rush_value *out)
{
  rush_tensor *t;
  TRY(pick_plain(w, w->dtype, &t));
  *out = value_heap_steal(RUSH_TAG_STORAGE, storage_retain(t->st));
  tensor_release(t);
  return RUSH_OK;
}

/* -- Containers -------------------------------------------------------------------------------- */

/* Set *out to v if st is RUSH_OK; release it otherwise.  Returns st. */
static rush_status give(rush_value v, rush_status st, rush_value *out)
{
  if (st == RUSH_OK)
    *out = v;
  else
    value_release(v);
  return st;
}

static rush_status pick_list(wild *w, const type *elem, int32_t fixed_len, rush_value *out)
{
  uint32_t n = fixed_len && wild_pick(w, 8) ? (uint32_t)fixed_len
               : one_in(w, 2)               ? (uint32_t)w->n_dims
                                            : wild_pick(w, 6);
  rush_list *l;
  rush_status st = RUSH_OK;
  if (one_in(w, 40))
    n = 60 + wild_pick(w, 20); /* more than a tensor has dimensions */
  TRY(list_new(w->cx, elem, n, &l));
  for (uint32_t i = 0; i < n && st == RUSH_OK; i++) {
    rush_value item;
    st = wild_value(w, elem, 0, &item);
    if (st == RUSH_OK)
      st = list_append_steal(w->cx, l, item);
  }
  return give(value_heap_steal(RUSH_TAG_LIST, l), st, out);
}

static rush_status pick_tuple(wild *w, const type *t, rush_value *out)
{
  rush_tuple *made;
  rush_status st = RUSH_OK;
  const uint32_t n = t->kind == TYPE_TUPLE ? t->n_elems : wild_pick(w, 4);
  TRY(tuple_new(w->cx, t->name ? t : NULL, n, &made));
  for (uint32_t i = 0; i < n && st == RUSH_OK; i++)
    st = wild_value(w, t->kind == TYPE_TUPLE ? t->elems[i] : type_simple(TYPE_ANY), 0,
                    &made->items[i]);
  return give(value_heap_steal(RUSH_TAG_TUPLE, made), st, out);
}

static rush_status pick_dict(wild *w, const type *t, rush_value *out)
{
  rush_dict *d;
  rush_status st = RUSH_OK;
  TRY(dict_new(w->cx, t->elems[0], t->elems[1], &d));
  for (uint32_t i = wild_pick(w, 5); i > 0 && st == RUSH_OK; i--) {
    rush_value key = value_none(), value = value_none();
    st = wild_value(w, t->elems[0], 0, &key);
    if (st == RUSH_OK)
      st = wild_value(w, t->elems[1], 0, &value);
    if (st == RUSH_OK)
      st = dict_set_steal(w->cx, d, key, value);
    else
      value_release(key);
  }
  return give(value_heap_steal(RUSH_TAG_DICT, d), st, out);
}

static rush_status pick_any(wild *w, rush_value *out)
{
  static const uint8_t kinds[] = {TYPE_NONE,     TYPE_INT,       TYPE_FLOAT,    TYPE_BOOL,
                                  TYPE_STRING,   TYPE_TENSOR,    TYPE_TENSOR,   TYPE_COMPLEX,
                                  TYPE_DEVICE,   TYPE_ANY_TUPLE, TYPE_ANY_LIST, TYPE_ANY_LIST,
                                  TYPE_GENERATOR};
  return wild_value(w, type_simple((type_kind)kinds[wild_pick(w, COUNT_OF(kinds))]), 0, out);
}

static rush_status pick_any_list(wild *w, rush_value *out)
{
  static const uint8_t kinds[] = {TYPE_INT,    TYPE_FLOAT,  TYPE_BOOL,
                                  TYPE_STRING, TYPE_TENSOR, TYPE_TENSOR};
  const type *elem = type_simple((type_kind)kinds[wild_pick(w, COUNT_OF(kinds))]);
  if (one_in(w, 4) && !(elem = type_list(w->types, elem)))
    return call_nomem(w->cx);
  return pick_list(w, elem, 0, out);
}

/* Make instances of classes written in C, with the operators that make them. */
static rush_status pick_custom(wild *w, const type *t, rush_value *out)
{
  static const struct {
    const char *class, *maker;
  } makers[] = {{"LinearPackedParamsBase", "quantized::linear_prepack"},
                {"LinearPackedParamsBase", "quantized::linear_prepack_fp16"},
                {"Conv2dPackedParamsBase", "quantized::conv2d_prepack"},
                {"Conv2dPackedParamsBase", "quantized::conv1d_prepack"},
                {"Conv2dPackedParamsBase", "quantized::conv_transpose2d_prepack"},
                {"Conv3dPackedParamsBase", "quantized::conv3d_prepack"},
                {"EmbeddingPackedParamsBase", "quantized::embedding_bag_prepack"},
                {"CellParamsBase", "quantized::make_quantized_cell_params"},
                {"CellParamsBase", "quantized::make_quantized_cell_params_dynamic"},
                {"CellParamsBase", "quantized::make_quantized_cell_params_fp16"}};
  uint32_t fit[COUNT_OF(makers)], n_fit = 0;
  for (uint32_t i = 0; i < COUNT_OF(makers); i++)
    if (t->name && strstr(t->name, makers[i].class))
      fit[n_fit++] = i;
  if (n_fit == 0)
    return call_unsupported(w->cx, "no values of this class are made");
  const char *name = makers[fit[wild_pick(w, n_fit)]].maker;
  const op *maker = op_find(w->cx->ctx, str_of(name), str_of(""));
  rush_value args[OP_MOST_ARGS];
  if (!maker)
    return call_unsupported(w->cx, "%s is not there", name);
  for (uint32_t i = 0; i < maker->schema->n_args; i++) {
    const schema_arg *a = &maker->schema->args[i];
    rush_status st = i == 0 && a->type->kind == TYPE_TENSOR && wild_pick(w, 8)
                       ? pick_quantized(w, &args[i])
                       : wild_value(w, a->type, a->fixed_len, &args[i]);
    if (st != RUSH_OK) {
      while (i > 0)
        value_release(args[--i]);
      return st;
    }
  }
  return made_by(w, name, args, maker->schema->n_args, out);
}

/* -- Types ------------------------------------------------------------------------------------- */

static const type *var_type(wild *w, const char *name)
{
  static const uint8_t kinds[] = {TYPE_INT,    TYPE_FLOAT,  TYPE_BOOL, TYPE_STRING,
                                  TYPE_TENSOR, TYPE_TENSOR, TYPE_ANY};
  for (uint32_t i = 0; i < w->n_vars; i++)
    if (strcmp(w->var_names[i], name) == 0)
      return w->var_types[i];
  const type *t = type_simple((type_kind)kinds[wild_pick(w, COUNT_OF(kinds))]);
  if (one_in(w, 6))
    t = type_list(w->types, t);
  if (w->n_vars < WILD_MAX_VARS && t) {
    w->var_names[w->n_vars] = name;
    w->var_types[w->n_vars++] = t;
  }
  return t;
}

const type *wild_type(wild *w, const type *t)
{
  const type *elems[8];
  if (!type_has_vars(t) || t->n_elems > COUNT_OF(elems))
    return t;
  if (t->kind == TYPE_VAR)
    return var_type(w, t->name);
  for (uint32_t i = 0; i < t->n_elems; i++)
    if (!(elems[i] = wild_type(w, t->elems[i])))
      return NULL;
  switch (t->kind) {
  case TYPE_LIST: return type_list(w->types, elems[0]);
  case TYPE_OPTIONAL: return type_optional(w->types, elems[0]);
  case TYPE_DICT: return type_dict(w->types, elems[0], elems[1]);
  case TYPE_TUPLE: return type_tuple(w->types, elems, t->n_elems);
  default: return t;
  }
}

static rush_status pick_generator(wild *w, rush_value *out)
{
  generator *g;
  TRY(generator_new(w->cx, wild_pick(w, 256), &g));
  *out = value_heap_steal(RUSH_TAG_GENERATOR, g);
  return RUSH_OK;
}

static rush_value pick_device(wild *w)
{
  return value_device((int32_t)(wild_pick(w, 8) ? 0 : pick_int(w)),
                      (int32_t)(wild_pick(w, 4) ? -1 : pick_int(w)));
}

static rush_status pick_simple(wild *w, const type *t, rush_value *out)
{
  switch (t->kind) {
  case TYPE_SCALAR_TYPE: *out = value_int(pick_enumerated(w, N_DTYPES)); return RUSH_OK;
  case TYPE_LAYOUT: *out = value_int(pick_enumerated(w, 9)); return RUSH_OK;
  case TYPE_MEMORY_FORMAT: *out = value_int(pick_enumerated(w, 5)); return RUSH_OK;
  case TYPE_QSCHEME: *out = value_int(pick_enumerated(w, 6)); return RUSH_OK;
  case TYPE_GENERATOR: return pick_generator(w, out);
  case TYPE_STORAGE: return pick_storage(w, out);
  case TYPE_ANY: return pick_any(w, out);
  case TYPE_ANY_LIST: return pick_any_list(w, out);
  case TYPE_ANY_TUPLE: return pick_tuple(w, t, out);
  case TYPE_NUMBER: return pick_number(w, true, out);
  case TYPE_STRING: return pick_text(w, out);
  case TYPE_COMPLEX: return complex_new(w->cx, pick_float(w), pick_float(w), out);
  case TYPE_DEVICE: *out = pick_device(w); return RUSH_OK;
  case TYPE_NONE: *out = value_none(); return RUSH_OK;
  default: break;
  }
  switch (type_runtime(t)->kind) {
  case TYPE_TENSOR: return pick_tensor(w, out);
  case TYPE_BOOL: *out = value_bool(wild_pick(w, 2)); return RUSH_OK;
  case TYPE_INT: *out = value_int(pick_int(w)); return RUSH_OK;
  case TYPE_FLOAT: *out = value_float(pick_float(w)); return RUSH_OK;
  default: return call_unsupported(w->cx, "no values of this type are made");
  }
}

rush_status wild_value(wild *w, const type *t, int32_t fixed_len, rush_value *out)
{
  *out = value_none();
  if (type_has_vars(t) && !(t = wild_type(w, t)))
    return call_nomem(w->cx);
  switch (t->kind) {
  case TYPE_OPTIONAL:
    return wild_pick(w, 2) ? RUSH_OK : wild_value(w, t->elems[0], fixed_len, out);
  case TYPE_UNION: return wild_value(w, t->elems[wild_pick(w, t->n_elems)], 0, out);
  case TYPE_LIST: return pick_list(w, t->elems[0], fixed_len, out);
  case TYPE_TUPLE: return pick_tuple(w, t, out);
  case TYPE_DICT: return pick_dict(w, t, out);
  case TYPE_CLASS: return pick_custom(w, t, out);
  default: return pick_simple(w, t, out);
  }
}
