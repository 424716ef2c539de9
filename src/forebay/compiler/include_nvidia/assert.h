// assert is built into the compiler.
#pragma once
