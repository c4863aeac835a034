/* Run digits.pt2 and request the features that the program was linked without: tests/house/small.py
 * links it with few operators, and with replacements for gradients, quantized kernels, plug-ins and
 * the front end. */
#include <stdio.h>
#include <string.h>

#include <rushlight/rushlight.h>

/* Print the refusal; return 1 if there was none. */
static int refused(const char *what, rush_status st, rush_error *err)
{
  if (st == RUSH_OK) {
    fprintf(stderr, "%s runs\n", what);
    return 1;
  }
  puts(err->message);
  rush_error_clear(err);
  return 0;
}

static int ask_for_what_is_absent(rush_module *m, rush_value x, rush_error *err)
{
  static const char text[] = "def f(x: Tensor):\n  return x\n";
  rush_call_options recorded = RUSH_CALL_OPTIONS_INIT;
  rush_module *made;
  rush_value y;
  size_t n;
  int failed = 0;

  recorded.record_gradients = true;
  failed += refused("recording",
                    rush_module_call_named(m, "forward", &x, 1, NULL, 0, &recorded, &y, err), err);
  failed += refused("asking", rush_gradients(NULL, &x, NULL, 1, &x, 1, NULL, &y, err), err);
  failed += refused("a formula", rush_op_n_gradients(NULL, "aten::mul.Tensor", &n, err), err);
  rush_value quantize[] = {x, rush_value_float(0.1), rush_value_int(0),
                           rush_value_int(13)}; /* quint8 */
  failed += refused(
    "quantizing",
    rush_op_call(NULL, "aten::quantize_per_tensor", quantize, 4, NULL, 0, &y, 1, &n, err), err);
  failed += refused("a plug-in", rush_plugin_load(NULL, "plugin.so", err), err);
  failed += refused("a text", rush_module_compile(NULL, text, strlen(text), NULL, &made, err), err);
  return failed;
}

int main(int argc, char **argv)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value x, y, z;
  rush_module *m;
  char *shown;
  size_t n;

  if (argc < 2 || rush_module_load(NULL, argv[1], NULL, &m, &err) != RUSH_OK ||
      rush_tensor_create(NULL, RUSH_FLOAT32, 4, (int64_t[]){1, 1, 8, 8}, &x, &err) != RUSH_OK) {
    fprintf(stderr, "%s\n", err.message ? err.message : "usage: small digits.pt2 [absent]");
    return 1;
  }
  memset(rush_tensor_data_mut(x.as.tensor), 0, 64 * sizeof(float));
  if (rush_module_call(m, "forward", &x, 1, &y, &err) != RUSH_OK ||
      rush_value_to_text(NULL, y, true, &shown, &err) != RUSH_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  puts(shown);
  rush_free_text(NULL, shown);
  int failed = refused("aten::fft_fft",
                       rush_op_call(NULL, "aten::fft_fft", &y, 1, NULL, 0, &z, 1, &n, &err), &err);
  if (argc > 2)
    failed += ask_for_what_is_absent(m, x, &err);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  return failed > 0;
}
