"""Functions of C's library that clang calls of its own accord, and that no driver has.

Intel's CPU runtime finds them in the process that it works in; on Level Zero a kernel that calls them cannot be made.
"""

from __future__ import annotations

import re

__all__ = ["with_library"]

MEMCMP = """define internal spir_func i32 @memcmp(ptr addrspace(4) %a, ptr addrspace(4) %b, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %same ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %equal, label %body
body:
  %ap = getelementptr i8, ptr addrspace(4) %a, i64 %i
  %bp = getelementptr i8, ptr addrspace(4) %b, i64 %i
  %x = load i8, ptr addrspace(4) %ap
  %y = load i8, ptr addrspace(4) %bp
  %next = add i64 %i, 1
  %differ = icmp ne i8 %x, %y
  br i1 %differ, label %found, label %same
same:
  br label %head
found:
  %xi = zext i8 %x to i32
  %yi = zext i8 %y to i32
  %difference = sub i32 %xi, %yi
  ret i32 %difference
equal:
  ret i32 0
}
"""
FUNCTIONS = {"memcmp": MEMCMP, "bcmp": MEMCMP.replace("@memcmp", "@bcmp")}
DECLARED = re.compile(rf"^declare [^@\n]*@({'|'.join(FUNCTIONS)})\(.*\n", re.MULTILINE)


def with_library(module: str) -> str:
    """Return LLVM's text with these functions defined where it only declares them."""
    return DECLARED.sub(lambda match: FUNCTIONS[match[1]], module)
