#include "support/test.h"

#include "compile/loop.h"

static void products_of_any_length(void **state)
{
  (void)state;
  context *c = test_context(&(context_options){0});
  call_ctx cx;
  rush_error err = RUSH_ERROR_INIT;
  call_ctx_init(&cx, c, &err);
  tape_instr code[] = {{TAPE_MUL, TY_F32, 2, 0, 1, 0}, {TAPE_MUL, TY_F32, 3, 2, 2, 0}, {TAPE_MUL, TY_F32, 4, 3, 0, 0}};
  loop_tape t = {.code = code, .n_instrs = 3, .n_regs = 5, .n_inputs = 2, .n_results = 1,
    .input_kinds = (uint8_t[]){0, 0}, .input_types = (uint8_t[]){TY_F32, TY_F32}, .results = (uint8_t[]){4}, .result_types = (uint8_t[]){TY_F32}};
  for (int level = CPU_AVX2; level <= CPU_AVX512; level++) {
    loop_code *code_ = NULL;
    rush_status st = loop_compile(&cx, &t, (cpu_level)level, &code_);
    if (st) printf("%s\n", err.message);
    assert_int_equal(st, RUSH_OK);
    text_buf b;
    text_init(&b, c);
    loop_disassemble(&b, code_);
    assert_non_null(strstr(text_str(&b), "vmulps"));
    text_free(&b);
    float x[100], y[100], z[100];
    for (int i = 0; i < 100; i++) x[i] = (float)i, y[i] = (float)(i*3);
    for (int n = 0; n < 100; n++) {
      memset(z, 0, sizeof z);
      code_->fn(n, (void *[]){x, y, z});
      for (int i = 0; i < 100; i++) { float w = x[i]*y[i]; w = w*w; w=w*x[i]; assert_true(z[i] == (i < n ? w : 0)); }
    }
    loop_code_release(code_);
  }
  context_release(c);
}
int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_any_length)};
  return RUN_TESTS(tests);
}
