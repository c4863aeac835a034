/* run/listing.c -- bytecode and the machine code of groups, as text and as JSON.
 *
 * The JSON also has what the text omits: the position in the source of each instruction. */
#include "run/code_int.h"

#include "formats/json.h"

#include <stdlib.h>
#include <string.h>

/* -- Text -------------------------------------------------------------------------------------- */

static void print_operand(text_buf *out, uint32_t o)
{
  if (o == NO_REG)
    text_puts(out, " _");
  else
    text_printf(out, " %s%u%s", o & OPERAND_CONST ? "k" : "r", o & OPERAND_INDEX,
                o & OPERAND_LAST ? "!" : "");
}

static void print_site(text_buf *out, const code *c, const site *st)
{
  if (st->op)
    text_printf(out, " %s%s%s", st->op->schema->name, st->op->schema->overload[0] ? "." : "",
                st->op->schema->overload);
  if (st->function)
    text_printf(out, " %s", st->function->qualified);
  if (st->name)
    text_printf(out, " %s", st->name);
  for (uint32_t i = 0; i < st->n_args; i++)
    print_operand(out, c->operands[st->first + i]);
  text_puts(out, " ->");
  for (uint32_t i = 0; i < st->n_results; i++)
    print_operand(out, c->operands[st->first + st->n_args + i]);
}

void code_print(text_buf *out, const code *c)
{
  text_printf(out, "%s: %u registers, %u of constants, %u arguments\n", c->name, c->n_regs,
              c->n_kregs, c->n_args);
  for (uint32_t pc = 0; pc < c->n_ins; pc++) {
    ins i = c->code[pc];
    opcode op = (opcode)i.op;

    text_printf(out, "%4u  %-12s", pc, opcode_name(op));
    if (op >= OPC_OPERATOR)
      print_site(out, c, &c->sites[ins_imm(i)]);
    else if (op == OPC_LOADK)
      text_printf(out, " r%u k%d", i.a, ins_imm(i));
    else if (op >= OPC_JUMP && op <= OPC_LOOP_NEXT && op != OPC_POLL)
      text_printf(out, " r%u -> %d", i.a, (int)pc + 1 + ins_imm(i));
    else
      text_printf(out, " r%u r%u %d", i.a, i.b, (int16_t)i.c);
    text_putc(out, '\n');
  }
}

static void write_text(void *to, const char *text, size_t n)
{
  text_buf *out = to;

  for (size_t i = 0; i < n; i++)
    text_putc(out, text[i]);
}

void code_describe(text_buf *out, const code *c)
{
  for (uint32_t i = 0; i < c->n_sites; i++) {
    const site *st = &c->sites[i];

    if (st->state && st->op->outside->describe)
      st->op->outside->describe(st->state->user, st->op->outside->user, write_text, out);
  }
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void put_str(text_buf *out, const char *text) { json_quote(out, str_of(text)); }

/* Append ,"at":{"file","line","column"} for a range with a source. */
static void put_place(text_buf *out, const source_range *at)
{
  uint32_t line, column;

  if (!at->src || !at->src->name)
    return;
  source_position(at->src, at->start, &line, &column);
  text_puts(out, ",\"at\":{\"file\":");
  put_str(out, at->src->name);
  text_printf(out, ",\"line\":%u,\"column\":%u}", line, column);
}

static void put_place_of(text_buf *out, const code *c, uint32_t pc)
{
  put_place(out, &c->places[c->place_of[pc]].range);
}

/* Append operands: registers are "r0", constants "k0". */
static void put_operands(text_buf *out, const char *key, const uint32_t *operands, uint32_t n)
{
  text_printf(out, ",\"%s\":[", key);
  for (uint32_t i = 0; i < n; i++) {
    text_puts(out, i ? "," : "");
    if (operands[i] == NO_REG)
      text_puts(out, "null");
    else
      text_printf(out, "\"%s%u\"", operands[i] & OPERAND_CONST ? "k" : "r",
                  operands[i] & OPERAND_INDEX);
  }
  text_putc(out, ']');
}

static void put_operator(text_buf *out, const schema *sc)
{
  text_puts(out, ",\"operator\":\"");
  text_printf(out, "%s%s%s\"", sc->name, sc->overload[0] ? "." : "", sc->overload);
}

static void put_site(text_buf *out, const code *c, const site *st)
{
  if (st->op)
    put_operator(out, st->op->schema);
  if (st->function || st->name) {
    text_puts(out, st->function ? ",\"function\":" : ",\"name\":");
    put_str(out, st->function ? st->function->qualified : st->name);
  }
  put_operands(out, "inputs", c->operands + st->first, st->n_args);
  put_operands(out, "outputs", c->operands + st->first + st->n_args, st->n_results);
}

static bool is_jump(opcode op) { return op >= OPC_JUMP && op <= OPC_LOOP_NEXT && op != OPC_POLL; }

static void put_instruction(text_buf *out, const code *c, uint32_t pc)
{
  const ins i = c->code[pc];
  const opcode op = (opcode)i.op;

  text_printf(out, "{\"pc\":%u,\"op\":\"%s\"", pc, opcode_name(op));
  if (op >= OPC_OPERATOR)
    put_site(out, c, &c->sites[ins_imm(i)]);
  else if (op == OPC_LOADK)
    text_printf(out, ",\"a\":%u,\"constant\":%d", i.a, ins_imm(i));
  else if (is_jump(op))
    text_printf(out, ",\"a\":%u,\"to\":%d", i.a, (int)pc + 1 + ins_imm(i));
  else
    text_printf(out, ",\"a\":%u,\"b\":%u,\"c\":%d", i.a, i.b, (int16_t)i.c);
  put_place_of(out, c, pc);
  text_putc(out, '}');
}

void code_json(text_buf *out, const code *c)
{
  text_puts(out, "{\"name\":");
  put_str(out, c->name);
  text_printf(out, ",\"registers\":%u,\"constants\":%u,\"arguments\":%u,\"instructions\":[",
              c->n_regs, c->n_kregs, c->n_args);
  for (uint32_t pc = 0; pc < c->n_ins; pc++) {
    text_puts(out, pc ? ",\n" : "\n");
    put_instruction(out, c, pc);
  }
  text_puts(out, "]}");
}

/* Return the length of a word of hexadecimal digits at the start of line, if a blank follows; else
 * 0. */
static size_t hex_len(str line)
{
  size_t n = 0;

  while (n < line.len && memchr("0123456789abcdef", line.p[n], 16))
    n++;
  return n < line.len && line.p[n] == ' ' ? n : 0;
}

static str skip(str line, size_t n)
{
  line.p += n;
  line.len -= n;
  while (line.len && *line.p == ' ') {
    line.p++;
    line.len--;
  }
  return line;
}

/* Append a line of a description: {"address", "bytes", "text"} for "  4b  e90b000000  jmp 20f",
 * {"label"} for "20:", else {"text"}. */
static void put_line(text_buf *out, str line)
{
  const str word = skip(line, 0);
  size_t n = hex_len(word);

  text_putc(out, '{');
  if (line.len > 1 && line.p[line.len - 1] == ':' && word.p == line.p) {
    text_puts(out, "\"label\":");
    json_quote(out, (str){line.p, line.len - 1});
    text_putc(out, '}');
    return;
  }
  if (word.p != line.p && n) {
    text_printf(out, "\"address\":%lu,", strtoul(word.p, NULL, 16));
    line = skip(word, n);
    n = hex_len(line);
    if (n && n % 2 == 0 && memchr(line.p, ' ', line.len)) {
      text_printf(out, "\"bytes\":\"%.*s\",", (int)n, line.p);
      line = skip(line, n);
    }
  }
  text_puts(out, "\"text\":");
  json_quote(out, line);
  text_putc(out, '}');
}

static void put_lines(text_buf *out, const text_buf *text)
{
  const char *p = text_str(text), *end = p + text->len;

  for (bool first = true; p < end; first = false) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    stop = stop ? stop : end;
    text_puts(out, first ? "\n" : ",\n");
    put_line(out, (str){p, (size_t)(stop - p)});
    p = stop + 1;
  }
}

/* Return the instruction that uses a site, for its position. */
static uint32_t pc_of_site(const code *c, uint32_t index)
{
  uint32_t pc = 0;

  while (pc < c->n_ins &&
         !(c->code[pc].op >= OPC_OPERATOR && (uint32_t)ins_imm(c->code[pc]) == index))
    pc++;
  return pc;
}

void code_describe_json(text_buf *out, const code *c, text_buf *scratch)
{
  bool first = true;

  text_puts(out, "{\"name\":");
  put_str(out, c->name);
  text_puts(out, ",\"groups\":[");
  for (uint32_t i = 0; i < c->n_sites; i++) {
    const site *st = &c->sites[i];
    if (!st->state || !st->op->outside->describe)
      continue;
    text_clear(scratch);
    st->op->outside->describe(st->state->user, st->op->outside->user, write_text, scratch);
    text_puts(out, first ? "{\"operator\":\"" : ",{\"operator\":\"");
    text_printf(out, "%s\"", st->op->schema->name);
    const uint32_t pc = pc_of_site(c, i);
    if (pc < c->n_ins) {
      text_printf(out, ",\"pc\":%u", pc);
      put_place_of(out, c, pc);
    }
    text_puts(out, ",\"lines\":[");
    put_lines(out, scratch);
    text_puts(out, "]}");
    first = false;
  }
  text_puts(out, "]}");
}
