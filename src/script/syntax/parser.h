/* script/syntax/parser.h -- from source text to syntax trees.
 *
 * Recursive descent for statements, precedence climbing for operators; nesting is bounded by the
 * session's depth limit.  The same parser reads archive code, user files and type comments.
 *
 * A source may be parsed in skeleton form, where the bodies of functions are skipped: loading an
 * archive needs only names, attributes and signatures.  parse_def_at reads a complete function
 * again when its body is needed, so that no tree outlives its session. */
#ifndef RUSH_SCRIPT_PARSER_H
#define RUSH_SCRIPT_PARSER_H

#include "base/session.h"
#include "script/syntax/ast.h"

typedef enum parse_flags {
  PARSE_SKIP_BODIES = 1,  /* skip the bodies of functions at top level and in classes */
  PARSE_RAW_BYTES = 2,    /* for archives: "\303" is a byte; in Python text it is a code point */
  PARSE_HEAD_ONLY = 4,    /* for one function: stop after its signature */
  PARSE_TORCH_WORDS = 16, /* report syntax errors with the messages of PyTorch's parser */
  PARSE_LIVE = 32, /* a function of a Python file: comments are not types (comments.c reads them) */
  PARSE_TREE_RANGES =
    /* ranges of strings as in PyTorch's converter of Python's tree: their characters and one
     * more */
    8
} parse_flags;

/* Parse a whole file. */
ast_stmts parse_source(session *s, const source *src, unsigned flags);
/* Parse the function whose range started at `start` ("def", decorators excluded). */
ast_def *parse_def_at(session *s, const source *src, uint32_t start, unsigned flags);
/* Parse only its signature: the body is skipped. */
ast_def *parse_def_head(session *s, const source *src, uint32_t start, unsigned flags);
/* Like parse_def_head, with text_end: the body's tokens are skipped. */
ast_def *parse_def_skipped(session *s, const source *src, uint32_t start, unsigned flags);
/* Parse "(A, B) -> C". */
ast_signature parse_signature(session *s, source_range at, unsigned flags);
/* Parse the class whose range started at `start`. */
ast_class *parse_class_at(session *s, const source *src, uint32_t start, unsigned flags);
/* Parse the expression whose range started at `start`: ranges exclude brackets at their ends. */
ast_expr *parse_expr_at(session *s, const source *src, uint32_t start);
/* Parse one expression that fills the whole range (a type comment, the inside of an f-string). */
ast_expr *parse_expr_range(session *s, source_range at, unsigned flags);

#endif
