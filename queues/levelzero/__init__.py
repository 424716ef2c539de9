"""The Level Zero driver. Only this package deals with `ze_command_list_handle_t` and the like."""
