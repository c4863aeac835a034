/* json.c -- prints values as JSON.  Tensors are {"dtype", "shape", "data"}, data being nested
 * lists; tuples are lists; NaN and infinities, which JSON lacks, are the strings "nan", "inf",
 * "-inf". */
#include "cli.h"

#include <math.h>

void cli_json_text(FILE *f, const char *text)
{
  fputc('"', f);
  for (; *text; text++) {
    unsigned char ch = (unsigned char)*text;
    if (ch == '"' || ch == '\\')
      fprintf(f, "\\%c", ch);
    else if (ch == '\n')
      fputs("\\n", f);
    else if (ch < 0x20)
      fprintf(f, "\\u%04x", ch);
    else
      fputc(ch, f);
  }
  fputc('"', f);
}

/* Print a number; digits: as many as the dtype needs to be restored, 9 or 17. */
static void write_number(FILE *f, double d, int digits)
{
  if (isnan(d))
    fputs("\"nan\"", f);
  else if (isinf(d))
    fputs(d < 0 ? "\"-inf\"" : "\"inf\"", f);
  else
    fprintf(f, "%.*g", digits, d);
}

typedef struct kind {
  bool whole, complex;
  int digits;
} kind;

/* Print elements of dimension `dim` on; data is contiguous int64 or float64 (two per complex
 * number). */
static const char *elements(FILE *f, const rush_tensor *t, int dim, const kind *k, const char *data)
{
  if (dim == rush_tensor_n_dims(t)) {
    if (k->whole) {
      fprintf(f, "%lld", (long long)*(const int64_t *)data);
    } else if (k->complex) {
      fputc('[', f);
      write_number(f, ((const double *)data)[0], k->digits);
      fputs(", ", f);
      write_number(f, ((const double *)data)[1], k->digits);
      fputc(']', f);
    } else {
      write_number(f, *(const double *)data, k->digits);
    }
    return data + (k->complex ? 16 : 8);
  }
  fputc('[', f);
  for (int64_t i = 0; i < rush_tensor_sizes(t)[dim]; i++) {
    if (i)
      fputs(", ", f);
    data = elements(f, t, dim + 1, k, data);
  }
  fputc(']', f);
  return data;
}

static bool is_whole(rush_dtype d)
{
  return d <= RUSH_INT64 || d == RUSH_BOOL || (d >= RUSH_UINT16 && d <= RUSH_UINT64);
}

static bool tensor(cli *c, FILE *f, rush_value v, rush_error *err)
{
  rush_dtype d = rush_tensor_dtype(v.as.tensor);
  kind k = {is_whole(d), d >= RUSH_COMPLEX32 && d <= RUSH_COMPLEX128, 17};
  rush_value args[2] = {v, rush_value_int(k.whole     ? RUSH_INT64
                                          : k.complex ? RUSH_COMPLEX128
                                                      : RUSH_FLOAT64)};
  rush_value wide, flat;
  size_t n;

  if (d != RUSH_FLOAT64 && d != RUSH_COMPLEX128)
    k.digits = 9;
  if (rush_op_call(c->context, "aten::to.dtype", args, 2, NULL, 0, &wide, 1, &n, err) != RUSH_OK)
    return false;
  rush_status st = rush_tensor_contiguous(c->context, wide.as.tensor, &flat, err);
  rush_value_release(wide);
  if (st != RUSH_OK)
    return false;
  fprintf(f, "{\"dtype\": \"%s\", \"shape\": [", rush_dtype_name(d));
  for (int i = 0; i < rush_tensor_n_dims(v.as.tensor); i++)
    fprintf(f, "%s%lld", i ? ", " : "", (long long)rush_tensor_sizes(v.as.tensor)[i]);
  fputs("], \"data\": ", f);
  elements(f, flat.as.tensor, 0, &k, rush_tensor_data(flat.as.tensor));
  fputc('}', f);
  rush_value_release(flat);
  return true;
}

static bool items(cli *c, FILE *f, rush_value v, rush_error *err)
{
  const char *field = v.tag == RUSH_TAG_TUPLE ? rush_value_field(v, 0) : NULL;

  fputc(field ? '{' : '[', f);
  for (size_t i = 0; i < rush_value_len(v); i++) {
    if (i)
      fputs(", ", f);
    if (field) {
      cli_json_text(f, rush_value_field(v, i));
      fputs(": ", f);
    }
    if (!cli_json_value(c, f, rush_value_item(v, i), err))
      return false;
  }
  fputc(field ? '}' : ']', f);
  return true;
}

/* Print an object if all keys are strings, else a list of pairs. */
static bool dict(cli *c, FILE *f, rush_value v, rush_error *err)
{
  bool named = true;
  rush_value key, value;

  for (size_t i = 0; i < rush_value_len(v); i++) {
    rush_value_entry(v, i, &key, &value);
    named &= key.tag == RUSH_TAG_STRING;
  }
  fputc(named ? '{' : '[', f);
  for (size_t i = 0; i < rush_value_len(v); i++) {
    rush_value_entry(v, i, &key, &value);
    fputs(i ? ", " : "", f);
    fputs(named ? "" : "[", f);
    if (!cli_json_value(c, f, key, err))
      return false;
    fputs(named ? ": " : ", ", f);
    if (!cli_json_value(c, f, value, err))
      return false;
    fputs(named ? "" : "]", f);
  }
  fputc(named ? '}' : ']', f);
  return true;
}

bool cli_json_value(cli *c, FILE *f, rush_value v, rush_error *err)
{
  double re, im;
  char *text;

  switch (v.tag) {
  case RUSH_TAG_NONE:
    fputs("null", f);
    return true;
  case RUSH_TAG_TENSOR:
    if (v.as.tensor)
      return tensor(c, f, v, err);
    fputs("null", f);
    return true;
  case RUSH_TAG_BOOL:
    fputs(v.as.b ? "true" : "false", f);
    return true;
  case RUSH_TAG_INT:
    fprintf(f, "%lld", (long long)v.as.i);
    return true;
  case RUSH_TAG_FLOAT:
    write_number(f, v.as.d, 17);
    return true;
  case RUSH_TAG_COMPLEX:
    rush_value_complex(v, &re, &im);
    fputc('[', f);
    write_number(f, re, 17);
    fputs(", ", f);
    write_number(f, im, 17);
    fputc(']', f);
    return true;
  case RUSH_TAG_STRING:
    cli_json_text(f, rush_value_string(v, NULL));
    return true;
  case RUSH_TAG_LIST:
  case RUSH_TAG_TUPLE:
    return items(c, f, v, err);
  case RUSH_TAG_DICT:
    return dict(c, f, v, err);
  default:
    if (rush_value_to_text(c->context, v, true, &text, err) != RUSH_OK)
      return false;
    cli_json_text(f, text);
    rush_free_text(c->context, text);
    return true;
  }
}
